// lib/accept/checkpoint_drill.cpp -- see the header.
#include "accept/checkpoint_drill.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

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
    if (uninterrupted() && killed_and_resumed() && other_layout() && still_whole()) write_marker();
    report_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return report_;
  }

 private:
  fs::path run_dir(const char* name) const { return request_.folder / name; }
  fs::path log(const char* name) const { return request_.folder / (std::string(name) + ".log"); }
  fs::path checkpoint(const char* name, int64_t step) const {
    return RunPaths{run_dir(name)}.checkpoints() / folder_name_of(step);
  }
  std::string list_of(const char* name) const {
    return fmt::format("trainctl checkpoint list --closely {}", run_dir(name).string());
  }

  // `advice`: what to do when it failed.
  bool check(std::string what, bool passed, std::string found, std::string advice) {
    request_.progress(fmt::format("{}: {} ({})", passed ? "ok" : "FAILED", what, found));
    if (passed) advice.clear();
    report_.checks.push_back({std::move(what), passed, std::move(found), std::move(advice)});
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
    return run_launch(argv, log(name), kill_when);
  }

  static std::string why(const DrillRun& run) {
    if (!run.error.empty()) return fmt::format("exit code {}: {}", run.exit_code, run.error);
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
      fail(ErrorKind::rank_failed,
           fmt::format("the uninterrupted run did not end well, {}\n  log: {}", why(run), log("whole").string()));
    whole_ = step_numbers(RunPaths{run_dir("whole")}.metrics());
    return check("the uninterrupted run has every step and two usable checkpoints",
                 std::ssize(whole_) == request_.steps && usable("whole").size() >= 2,
                 fmt::format("{}, {}", counted(std::ssize(whole_), "step"),
                             counted(std::ssize(usable("whole")), "usable checkpoint")),
                 fmt::format("read {} and {}: a save failed, was skipped, or did not stay whole", log("whole").string(),
                             list_of("whole")));
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
    const bool on_the_way = first.killed && newest < request_.steps;
    if (!check("a killed rank ends its run with an error before the last step", on_the_way && first.exit_code != 0,
               on_the_way ? fmt::format("exit code {}", first.exit_code)
                          : "the run was at its end before the signal arrived",
               on_the_way ? fmt::format("read {}: the launcher took a killed rank for success", log("killed").string())
                          : fmt::format("give more --steps than {}", request_.steps)))
      return false;
    if (!check("a usable checkpoint is left by the killed run", newest > 0,
               newest > 0 ? fmt::format("step {}", newest) : "none",
               list_of("killed") + " says what is wrong with each; the disk may lose what was synced"))
      return false;
    const std::string left = inspect_folder(checkpoint("killed", newest)).manifest_sha256;
    request_.progress("starting the killed run again");
    const DrillRun second = launch("killed", argv);
    if (!check("the killed run, started again, ends well", second.exit_code == 0, outcome(second),
               fmt::format("read {}: the state of step {} did not load, or the run broke later", log("killed").string(),
                           newest)))
      return false;
    const bool went_on = check_parent(newest, left);
    const auto again = step_numbers(RunPaths{run_dir("killed")}.metrics());
    const std::string gap = first_difference(again);
    const bool same_numbers = check(
        "losses and norms of the killed run have the bits of the uninterrupted one", gap.empty(),
        gap.empty() ? counted(std::ssize(again), "step") : gap,
        fmt::format("state that continues is not in the checkpoint, or a step has not the same bits when run "
                    "again: compare {} with {}, and two runs without a kill",
                    RunPaths{run_dir("whole")}.metrics().string(), RunPaths{run_dir("killed")}.metrics().string()));
    return check_final_state() && went_on && same_numbers;
  }

  // The first state that the second launch saved says what it came from. A run that began anew would have the same
  // numbers in the end.
  bool check_parent(int64_t newest, const std::string& left) {
    std::optional<int64_t> step;
    std::string parent;
    for (const CheckpointInfo& info : usable("killed"))
      if (info.step > newest) {
        step = info.step;
        parent = read_manifest(info.folder).parent;
      }
    std::string found = fmt::format("step {}", newest);
    if (!step) found = fmt::format("it saved nothing after step {}", newest);
    if (step && parent != left)
      found = fmt::format("the first state it saved, step {}, does not come from step {}", *step, newest);
    return check("and it went on from the state that was left", step && parent == left, found,
                 fmt::format("read {}: it says what was continued, and which checkpoints were not used and why",
                             log("killed").string()));
  }

  bool check_final_state() {
    const fs::path a = checkpoint("whole", request_.steps), b = checkpoint("killed", request_.steps);
    bool same = false;
    std::string found;
    try {
      const CheckpointDifference d = diff_checkpoints(a, b);
      same = d.same();
      found = same ? counted(d.compared, "tensor") : counted(std::ssize(d.tensors), "tensor differs", "tensors differ");
      if (!d.tensors.empty()) found += fmt::format(", first {} ({})", d.tensors[0].name, d.tensors[0].role);
      if (!d.scalars.empty()) found += fmt::format("; {}", fmt::join(d.scalars, ", "));
    } catch (const Error& e) {
      found = e.what();
    }
    return check("and so has its final state", same, found,
                 fmt::format("trainctl checkpoint diff {} {}", a.string(), b.string()));
  }

  // Of the killed run's numbers against the uninterrupted one's; "" when every bit is the same.
  std::string first_difference(const std::map<int64_t, StepNumbers>& again) const {
    for (const auto& [step, numbers] : whole_) {
      const auto found = again.find(step);
      if (found == again.end()) return fmt::format("step {} is missing", step);
      const StepNumbers& n = found->second;
      if (!(n == numbers))
        return fmt::format("step {}: loss {} and norm {}, uninterrupted {} and {}", step, n.loss, n.grad_norm,
                           numbers.loss, numbers.grad_norm);
    }
    return again.size() > whole_.size() ? fmt::format("there are {} steps, not {}", again.size(), whole_.size()) : "";
  }

  bool other_layout() {
    request_.progress(fmt::format("continuing from step {} in another layout: {}", middle_, report_.other_layout));
    std::vector<std::string> argv =
        launch_of("other", recipe_.other, {"checkpoint.every_steps=0", "checkpoint.at_end=true"});
    argv.insert(argv.end(), {"--resume", checkpoint("whole", middle_).string()});
    const DrillRun run = launch("other", argv);
    if (!check("a run of another layout continues from the checkpoint", run.exit_code == 0, outcome(run),
               fmt::format("read {}; whether the checkpoint itself is whole says: trainctl checkpoint verify --full {}",
                           log("other").string(), checkpoint("whole", middle_).string())))
      return false;
    const auto then = step_numbers(RunPaths{run_dir("other")}.metrics());
    int64_t worst = middle_ + 1;
    bool complete = std::ssize(then) == request_.steps - middle_;
    for (const auto& [step, numbers] : then) {
      const auto known = whole_.find(step);
      complete = complete && known != whole_.end() && step > middle_;
      if (known == whole_.end()) continue;
      const double gap = std::max(relative_gap(known->second.loss, numbers.loss),
                                  relative_gap(known->second.grad_norm, numbers.grad_norm));
      if (gap > gap_) gap_ = gap, worst = step;
    }
    const double tolerance = recipe_.f32 ? kToleranceF32 : kToleranceBf16;
    return check(
        "its losses and norms agree with the uninterrupted run", complete && gap_ <= tolerance,
        fmt::format("{}, largest relative gap {:.1e} at step {}, allowed {:.0e}", counted(std::ssize(then), "step"),
                    gap_, worst, tolerance),
        fmt::format("compare {} with {}: a gap at the first step is a state that was not restored, one that "
                    "grows is rounding that the recipe amplifies (a large learning rate, a small eps)",
                    RunPaths{run_dir("whole")}.metrics().string(), RunPaths{run_dir("other")}.metrics().string()));
  }

  // What was shown is true of the files that were read; they must still be the ones that are marked.
  bool still_whole() {
    const CheckpointInfo info = inspect_folder(checkpoint("whole", middle_));
    return check("the checkpoint of all this is still usable", info.state == CheckpointState::usable,
                 info.state == CheckpointState::usable ? fmt::format("step {}", info.step) : info.reason,
                 "something else writes in " + request_.folder.string() + ", or the disk loses data");
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

const DrillCheck* DrillReport::failed() const {
  const auto first = std::find_if(checks.begin(), checks.end(), [](const DrillCheck& c) { return !c.passed; });
  return first == checks.end() ? nullptr : &*first;
}

DrillReport drill_checkpoints(const DrillRequest& request) {
  if (request.steps < 4)
    fail(ErrorKind::usage, fmt::format("--steps {} is too few for a drill; the least is 4", request.steps));
  return Drill(request).run();
}

}  // namespace trainctl
