// lib/accept/checkpoint_drill.cpp -- see the header.
#include "accept/checkpoint_drill.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "accept/drill_recipe.h"
#include "accept/drill_run.h"
#include "base/atomic_file.h"
#include "base/error.h"
#include "base/units.h"
#include "checkpoint/retention.h"
#include "checkpoint/scan.h"
#include "checkpoint/verify.h"
#include "recipe/job.h"

namespace trainctl {
namespace fs = std::filesystem;
namespace {

constexpr double kToleranceF32 = 1e-5, kToleranceBf16 = 3e-2;  // relative, of losses and norms in another layout
constexpr int kKillAttempts = 5;                               // a small model may be done before the signal arrives

double relative_gap(double a, double b) { return a == b ? 0 : std::abs(a - b) / std::max(std::abs(a), std::abs(b)); }

class Drill {
 public:
  explicit Drill(const DrillRequest& request)
      : request_(request),
        recipe_(drill_recipe(request.recipe, request.overrides, request.ranks, request.steps, request.scaled_down)),
        middle_(request.steps / 2) {
    report_.layout = recipe_.layout.text;
    report_.other_layout = recipe_.other.text;
  }

  DrillReport run() {
    const auto start = std::chrono::steady_clock::now();
    if (fs::exists(request_.folder) && !fs::is_empty(request_.folder))
      fail(ErrorKind::usage,
           fmt::format("--folder {} is not empty; a drill needs one of its own", request_.folder.string()));
    make_directories(request_.folder);
    if (uninterrupted() && killed_and_resumed()) other_layout();
    if (report_.passed()) write_marker();
    report_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return report_;
  }

 private:
  fs::path run_dir(const char* name) const { return request_.folder / name; }
  fs::path checkpoint(const char* name, int64_t step) const {
    return RunPaths{run_dir(name)}.checkpoints() / folder_name_of(step);
  }

  bool check(std::string what, bool passed, std::string found) {
    request_.progress(fmt::format("{}: {} ({})", passed ? "ok" : "FAILED", what, found));
    report_.checks.push_back({std::move(what), passed, std::move(found)});
    return passed;
  }

  std::vector<std::string> launch_of(const char* name, const DrillLayout& layout, std::vector<std::string> sets) const {
    std::vector<std::string> argv = {request_.trainctl.string(), "launch", request_.recipe.string()};
    argv.insert(argv.end(), request_.launch_arguments.begin(), request_.launch_arguments.end());
    argv.insert(argv.end(),
                {"--ranks", std::to_string(layout.ranks), "--oversubscribe", "--run-dir", run_dir(name).string()});
    for (const auto* list : {&recipe_.overrides, &layout.overrides})
      sets.insert(sets.begin() + (list == &recipe_.overrides ? 0 : std::ssize(recipe_.overrides)), list->begin(),
                  list->end());
    for (const std::string& set : sets) argv.insert(argv.end(), {"--set", set});
    return argv;
  }

  DrillRun launch(const char* name, const std::vector<std::string>& argv, const std::function<bool()>& kill_when = {}) {
    return run_launch(argv, request_.folder / (std::string(name) + ".log"), kill_when);
  }

  static std::string why(const DrillRun& run) {
    const size_t from = run.last_lines.size() > 4 ? run.last_lines.size() - 4 : 0;
    return fmt::format(
        "exit code {}: {}", run.exit_code,
        fmt::join(run.last_lines.begin() + static_cast<std::ptrdiff_t>(from), run.last_lines.end(), " | "));
  }

  static std::string outcome(const DrillRun& run) { return run.exit_code == 0 ? "exit code 0" : why(run); }

  bool uninterrupted() {
    request_.progress(
        fmt::format("training {} without interruption: {}", counted(request_.steps, "step"), report_.layout));
    const DrillRun run = launch("whole", launch_of("whole", recipe_.layout,
                                                   {fmt::format("checkpoint.every_steps={}", middle_),
                                                    "checkpoint.async=false", "checkpoint.at_end=true"}));
    if (run.exit_code != 0)
      fail(ErrorKind::rank_failed, fmt::format("the uninterrupted run did not end well, {}\n  log: {}", why(run),
                                               (request_.folder / "whole.log").string()));
    whole_ = step_numbers(RunPaths{run_dir("whole")}.metrics());
    return check("the uninterrupted run has every step and two usable checkpoints",
                 std::ssize(whole_) == request_.steps && usable("whole").size() >= 2,
                 fmt::format("{}, {}", counted(std::ssize(whole_), "step"),
                             counted(std::ssize(usable("whole")), "usable checkpoint")));
  }

  std::vector<CheckpointInfo> usable(const char* name) const {  // newest first
    std::vector<CheckpointInfo> all = scan_checkpoints(RunPaths{run_dir(name)}.checkpoints());
    std::erase_if(all, [](const CheckpointInfo& info) {
      return info.state != CheckpointState::usable || info.kind != "training";
    });
    return all;
  }

  // Kills a rank after the first commit; the run must not have come to its end. Returns the newest usable step, -1:
  // none.
  int64_t kill_on_the_way(const std::vector<std::string>& argv, DrillRun& run) {
    const fs::path folder = RunPaths{run_dir("killed")}.checkpoints();
    const auto committed = [&folder] {
      std::error_code absent;
      for (const auto& entry : fs::directory_iterator(folder, absent))
        if (step_of_folder(entry.path().filename().string()) && fs::exists(entry.path() / kCommittedName)) return true;
      return false;
    };
    int64_t newest = -1;
    for (int attempt = 0; attempt < kKillAttempts; ++attempt) {
      std::error_code absent;
      fs::remove_all(run_dir("killed"), absent);
      run = launch("killed", argv, committed);
      const std::vector<CheckpointInfo> left = usable("killed");
      newest = left.empty() ? -1 : left.front().step;
      if (run.killed && newest < request_.steps) break;
    }
    return newest;
  }

  bool killed_and_resumed() {
    request_.progress("training again, with a rank killed on the way");
    const std::vector<std::string> argv = launch_of(
        "killed", recipe_.layout,
        {"checkpoint.every_steps=1", fmt::format("checkpoint.keep={}", request_.steps + 1), "checkpoint.at_end=true"});
    DrillRun first;
    const int64_t newest = kill_on_the_way(argv, first);
    if (!check("a killed rank ends its run with an error before the last step",
               first.killed && first.exit_code != 0 && newest < request_.steps,
               first.killed && newest < request_.steps ? fmt::format("exit code {}", first.exit_code)
                                                       : "the run was too quick for the signal; give more --steps"))
      return false;
    if (!check("a usable checkpoint is left by the killed run", newest > 0, fmt::format("step {}", newest)))
      return false;
    request_.progress("starting the killed run again");
    const DrillRun second = launch("killed", argv);
    if (!check("the killed run, started again, ends well", second.exit_code == 0, outcome(second))) return false;
    const auto again = step_numbers(RunPaths{run_dir("killed")}.metrics());
    const bool same_numbers = check("losses and norms of the killed run have the bits of the uninterrupted one",
                                    again == whole_, counted(std::ssize(again), "step"));
    const CheckpointDifference d =
        diff_checkpoints(checkpoint("whole", request_.steps), checkpoint("killed", request_.steps));
    const bool same_state =
        check("and so has its final state", d.same(),
              d.same() ? counted(d.compared, "tensor")
                       : fmt::format("{}; {}", counted(std::ssize(d.tensors), "tensor differs", "tensors differ"),
                                     fmt::join(d.scalars, ", ")));
    return same_numbers && same_state;
  }

  bool other_layout() {
    request_.progress(fmt::format("continuing from step {} in another layout: {}", middle_, report_.other_layout));
    std::vector<std::string> argv =
        launch_of("other", recipe_.other, {"checkpoint.every_steps=0", "checkpoint.at_end=true"});
    argv.insert(argv.end(), {"--resume", checkpoint("whole", middle_).string()});
    const DrillRun run = launch("other", argv);
    if (!check("a run of another layout continues from the checkpoint", run.exit_code == 0, outcome(run))) return false;
    const auto then = step_numbers(RunPaths{run_dir("other")}.metrics());
    double gap = 0;
    bool complete = std::ssize(then) == request_.steps - middle_;
    for (const auto& [step, numbers] : then) {
      const auto known = whole_.find(step);
      complete = complete && known != whole_.end() && step > middle_;
      if (known == whole_.end()) continue;
      gap = std::max({gap, relative_gap(known->second.loss, numbers.loss),
                      relative_gap(known->second.grad_norm, numbers.grad_norm)});
    }
    gap_ = gap;
    const double tolerance = recipe_.f32 ? kToleranceF32 : kToleranceBf16;
    return check("its losses and norms agree with the uninterrupted run", complete && gap <= tolerance,
                 fmt::format("{}, largest relative gap {:.1e}, allowed {:.0e}", counted(std::ssize(then), "step"), gap,
                             tolerance));
  }

  void write_marker() {
    const fs::path folder = checkpoint("whole", middle_);
    mark_drilled(folder, inspect_folder(folder).manifest_sha256,
                 fmt::format("killed and resumed in {} with equal bits; continued in {} with a largest relative gap of "
                             "{:.1e} in losses and norms over {}",
                             report_.layout, report_.other_layout, gap_, counted(request_.steps - middle_, "step")));
    report_.drilled = folder;
  }

  const DrillRequest& request_;
  DrillRecipe recipe_;
  int64_t middle_;
  std::map<int64_t, StepNumbers> whole_;
  double gap_ = 0;
  DrillReport report_;
};

}  // namespace

bool DrillReport::passed() const {
  return !checks.empty() && std::all_of(checks.begin(), checks.end(), [](const DrillCheck& c) { return c.passed; });
}

DrillReport drill_checkpoints(const DrillRequest& request) {
  if (request.steps < 4)
    fail(ErrorKind::usage, fmt::format("--steps {} is too few for a drill; the least is 4", request.steps));
  return Drill(request).run();
}

}  // namespace trainctl
