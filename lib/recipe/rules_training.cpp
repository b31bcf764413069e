// lib/recipe/rules_training.cpp -- rules of the name, the data, the optimizer and the run.
#include <fmt/format.h>

#include "recipe/rules.h"

namespace trainctl {
namespace {

void check_name(RuleBook& book) {
  if (!book.usable({"name"})) return;
  const std::string& name = book.recipe.name;
  std::string legal;
  for (const char c : name.substr(0, 100)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    if (plain || ((c == '.' || c == '-') && !legal.empty()))
      legal.push_back(c);
    else if (!legal.empty() && legal.back() != '_')
      legal.push_back('_');
  }
  if (legal == name && !name.empty()) return;
  book.fault("name",
             fmt::format("{} must be 1 to 100 letters, digits, \".\", \"_\" or \"-\", not starting with \".\" or "
                         "\"-\": it names the run directory{}",
                         in_quotes(clipped(name)),
                         legal.empty() ? "" : fmt::format("; the nearest legal name is \"{}\"", legal)));
}

void check_data(RuleBook& book) {
  const DataConfig& d = book.recipe.data;
  if (book.usable({"data.train"}) && d.train.empty())
    book.fault("data.train", "is empty: at least one source { \"path\": ..., \"weight\": 1.0 } is needed");
  for (size_t i = 0; i < d.train.size(); ++i) {
    const std::string path = fmt::format("data.train[{}].path", i);
    if (book.usable({path}) && d.train[i].path.empty())
      book.fault(path, "is empty: the prefix of PREFIX.bin and PREFIX.idx is needed");
  }
}

void check_optimizer(RuleBook& book) {
  const OptimizerConfig& o = book.recipe.optimizer;
  const int64_t steps = book.recipe.runtime.steps;
  if (book.usable({"optimizer.momentum", "optimizer.kind"}) && o.kind == "adamw" && o.momentum != 0)
    book.fault(
        "optimizer.momentum",
        fmt::format("{} has no effect with kind \"adamw\", whose momentum is betas[0]; remove it, or set kind to "
                    "\"sgd\"",
                    o.momentum));
  if (!book.usable({"optimizer.schedule", "runtime.steps", "optimizer.schedule.warmup_steps"})) return;
  const ScheduleConfig& s = o.schedule;
  if (s.warmup_steps > steps) {
    book.fault(
        "optimizer.schedule.warmup_steps",
        fmt::format("{} is more than runtime.steps {}, so lr would never be reached; the nearest legal value is {}",
                    s.warmup_steps, steps, steps));
    return;
  }
  if (!book.usable({"optimizer.schedule.kind", "optimizer.schedule.decay_steps"})) return;
  const int64_t rest = steps - s.warmup_steps;
  if (s.kind == "wsd" && (s.decay_steps == 0 || s.decay_steps > rest))
    book.fault(
        "optimizer.schedule.decay_steps",
        fmt::format("{} must be in [1, {}] for \"wsd\": the length of the final decay, within runtime.steps {} - "
                    "warmup_steps {}; a tenth of the steps is usual, here {}",
                    s.decay_steps, rest, steps, s.warmup_steps,
                    std::clamp(steps / 10, int64_t{1}, std::max(int64_t{1}, rest))));
  if ((s.kind == "linear" || s.kind == "cosine") && s.decay_steps != 0 && s.decay_steps < s.warmup_steps)
    book.fault("optimizer.schedule.decay_steps",
               fmt::format("{} is less than warmup_steps {}: the decay ends at this step and begins after the warm-up; "
                           "the nearest legal value is {}, and 0 stands for runtime.steps",
                           s.decay_steps, s.warmup_steps, s.warmup_steps));
}

void check_runtime(RuleBook& book) {
  const RuntimeConfig& r = book.recipe.runtime;
  if (book.usable({"runtime.eval_every_steps", "data.validation_fraction"}) && r.eval_every_steps > 0 &&
      book.recipe.data.validation_fraction == 0)
    book.fault(
        "runtime.eval_every_steps",
        fmt::format("{} asks for evaluations, but data.validation_fraction is 0, so there is nothing to evaluate "
                    "on; set validation_fraction, e.g. to 0.01, or eval_every_steps to 0",
                    r.eval_every_steps));
}

}  // namespace

void check_training(RuleBook& book) {
  check_name(book);
  check_data(book);
  check_optimizer(book);
  check_runtime(book);
}

}  // namespace trainctl
