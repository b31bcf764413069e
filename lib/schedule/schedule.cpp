// lib/schedule/schedule.cpp -- the generators and their printed form.
#include "schedule/schedule.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/json_node.h"
#include "base/units.h"

namespace trainctl {

std::vector<std::string> schedule_names() { return {"1f1b", "gpipe"}; }

StageProgram gpipe(int num_micro_batches) {
  StageProgram program;
  for (int m = 0; m < num_micro_batches; ++m) program.push_back({Phase::forward, m});
  for (int m = 0; m < num_micro_batches; ++m) program.push_back({Phase::backward, m});
  return program;
}

StageProgram one_f_one_b(int stage, int num_stages, int num_micro_batches) {
  // A stage may run ahead by as many micro-batches as there are stages behind it; then each forward frees one.
  const int warmup = std::min(num_stages - 1 - stage, num_micro_batches);
  StageProgram program;
  for (int m = 0; m < num_micro_batches; ++m) {
    program.push_back({Phase::forward, m});
    if (m >= warmup) program.push_back({Phase::backward, m - warmup});
  }
  for (int m = num_micro_batches - warmup; m < num_micro_batches; ++m) program.push_back({Phase::backward, m});
  return program;
}

Schedule make_schedule(std::string_view name, int num_stages, int num_micro_batches) {
  const std::vector<std::string> names = schedule_names();
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    const std::string close = nearest(name, names);
    fail(ErrorKind::plan, fmt::format("pipeline_schedule is \"{}\"; it must be one of {}{}", name,
                                      fmt::join(names, ", "), close.empty() ? "" : "; did you mean " + close + "?"));
  }
  if (num_stages < 1) fail(ErrorKind::plan, fmt::format("pipeline_parallel is {}; it must be at least 1", num_stages));
  if (num_micro_batches < 1)
    fail(ErrorKind::plan, fmt::format("the number of micro-batches is {}; it must be at least 1: raise "
                                      "global_batch_size or lower micro_batch_size",
                                      num_micro_batches));
  Schedule schedule{std::string(name), num_stages, num_micro_batches, {}};
  for (int stage = 0; stage < num_stages; ++stage)
    schedule.programs.push_back(name == "gpipe" ? gpipe(num_micro_batches)
                                                : one_f_one_b(stage, num_stages, num_micro_batches));
  return schedule;
}

std::string to_text(const Action& action) {
  std::string text = fmt::format("{}{}", action.phase == Phase::forward ? 'F' : 'B', action.micro_batch);
  if (action.chunk != 0) text += fmt::format(".{}", action.chunk);
  return text;
}

std::string to_text(const Schedule& schedule) {
  std::string text = fmt::format("{}: {}, {}\n", schedule.name, counted(schedule.num_stages, "stage"),
                                 counted(schedule.num_micro_batches, "micro-batch", "micro-batches"));
  for (size_t stage = 0; stage < schedule.programs.size(); ++stage) {
    text += fmt::format("stage {}:", stage);
    for (const Action& action : schedule.programs[stage]) text += " " + to_text(action);
    text += "\n";
  }
  return text;
}

}  // namespace trainctl
