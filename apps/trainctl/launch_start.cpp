// apps/trainctl/launch_start.cpp -- see the header.
#include "launch_start.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json_node.h"
#include "base/text_line.h"
#include "base/units.h"
#include "checkpoint/scan.h"
#include "trainer/initial_weights.h"
#include "trainer/saved_states.h"

namespace trainctl {
namespace fs = std::filesystem;

namespace {

bool is_path(const std::string& resume) { return resume != "auto" && resume != "never"; }

bool has_states(const RunPaths& paths) {
  const std::vector<CheckpointInfo> infos = scan_checkpoints(paths.checkpoints(), Look::glance);
  return std::any_of(infos.begin(), infos.end(),
                     [](const CheckpointInfo& info) { return info.state != CheckpointState::incomplete; });
}

// Another run's state among the run's own ones, and nothing was saved since the run went on from it: what it had saved
// beyond that step was marked then.
bool is_strange_and_newest(const LaunchArguments& a, const Job& job, const fs::path& folder) {
  Manifest manifest;
  const CheckpointInfo info = inspect_folder(folder, &manifest);
  if (info.state != CheckpointState::usable || manifest.run_id == job.run_id) return false;
  const std::vector<UsableState> own = usable_states({a.run_dir}, job.run_id);
  return own.empty() || own.front().step <= info.step;
}

}  // namespace

void check_start(const LaunchArguments& a) {
  const bool resume_path = is_path(a.request.resume);
  for (const auto& [option, path] :
       std::vector<std::pair<std::string, std::string>>{{"--run-dir", a.run_dir.empty() ? "runs" : a.run_dir},
                                                        {"--resume", resume_path ? a.request.resume : ""},
                                                        {"--init-from", a.init_from}}) {
    std::error_code gone;  // the current folder may be
    const std::string whole = path.empty() ? "" : (fs::absolute("", gone) / path).string();
    if (!is_text_line(whole))
      fail(ErrorKind::usage, fmt::format("{} {}: a path with control characters, or one that is not UTF-8, cannot be "
                                         "written into the run's files; rename it",
                                         option, in_quotes(whole)));
  }
  if (!a.init_from.empty() && resume_path)
    fail(ErrorKind::usage,
         fmt::format("--init-from {} and --resume {} contradict each other: the first starts at step 0 "
                     "from weights alone, the second goes on with a whole state; leave one out",
                     a.init_from, a.request.resume));
  if (a.allow_intermediate && a.init_from.empty() && !resume_path)
    fail(ErrorKind::usage,
         "--allow-intermediate says that one named state may be used although it holds infinities or "
         "NaNs; it goes with --init-from or --resume PATH");
  std::error_code ignored;
  const bool absent = resume_path && !fs::exists(a.request.resume, ignored);  // that is told elsewhere
  if (a.skip_batches > 0 && !absent && (!resume_path || !is_checkpoint_folder(a.request.resume)))
    fail(
        ErrorKind::usage,
        fmt::format("--skip-batches {}: batches are skipped after one checkpoint, so that the same command given twice "
                    "does not skip twice; name it: --resume RUN_DIR/checkpoints/step-00000100 (--resume is {})",
                    a.skip_batches, a.request.resume));
}

std::optional<Job> earlier_job(const LaunchArguments& a) {
  const RunPaths paths{a.run_dir};
  if (a.run_dir.empty()) return std::nullopt;
  check_run_files(paths);
  if (!fs::exists(paths.launch())) return std::nullopt;
  try {
    return load_job(paths.launch());
  } catch (const Error& e) {
    fail(ErrorKind::input, fmt::format("{}\n{}", e.what(), kWithoutLaunchJson));
  }
}

std::string run_id(const std::string& recipe_name, const std::optional<Job>& earlier) {
  if (!earlier) return recipe_name + "-" + random_hex(8);
  return earlier->run_id.empty() ? earlier->recipe.name : earlier->run_id;
}

std::vector<UsableState> usable_states(const RunPaths& paths, const std::string& run_id) {
  std::vector<UsableState> states;
  for (const CheckpointInfo& info : scan_checkpoints(paths.checkpoints(), Look::glance)) {
    Manifest manifest;
    if (info.state != CheckpointState::usable || info.kind != "training") continue;
    const CheckpointInfo closely = inspect_folder(info.folder, &manifest);
    if (closely.state == CheckpointState::usable && manifest.run_id == run_id)
      states.push_back({info.step, info.folder.string(), manifest.scalars.consumed_samples});
  }
  return states;
}

void check_lost_states(const LaunchArguments& a, const RunRecord& seen) {
  const RunPaths paths{a.run_dir};
  if (a.request.resume != "auto" || a.run_dir.empty() || has_states(paths)) return;
  if (const std::string why = lost_states(paths, seen); !why.empty()) fail(ErrorKind::checkpoint, why);
}

void remember_resume(Job& job, const LaunchArguments& a, const std::optional<Job>& earlier,
                     std::vector<std::string>& warnings) {
  if (a.request.resume != "auto" || !a.init_from.empty() || !earlier || !is_path(earlier->resume)) return;
  const auto outside = fs::weakly_canonical(earlier->resume).lexically_relative(fs::weakly_canonical(a.run_dir));
  if (outside.string().starts_with("..") ? has_states({a.run_dir}) : !is_strange_and_newest(a, job, earlier->resume))
    return;
  job.resume = earlier->resume;
  job.allow_intermediate = earlier->allow_intermediate;
  warnings.push_back(
      fmt::format("the run has saved nothing since then and goes on from {}, as it was told before", earlier->resume));
}

void remember_skipped(Job& job, const LaunchArguments& a, const std::optional<Job>& earlier) {
  if (a.request.resume == "never") return;
  if (earlier) {
    job.skip = earlier->skip;
    job.skipped_before = earlier->skipped_before;
  }
  if (a.request.resume == "auto") return;
  if (job.skip.batches > 0) job.skipped_before.push_back(job.skip);
  job.skip = {};
  if (!is_checkpoint_folder(job.resume)) return;
  const CheckpointInfo info = inspect_folder(job.resume);
  if (info.state == CheckpointState::usable)
    std::erase_if(job.skipped_before, [&](const SkipBatches& before) { return before.step >= info.step; });
  if (a.skip_batches == 0) return;
  if (info.state != CheckpointState::usable)
    fail(ErrorKind::checkpoint, fmt::format("--resume {}: {}", job.resume, info.reason));
  job.skip = {a.skip_batches, checked_mul(a.skip_batches, job.recipe.runtime.global_batch_size.value()),
              info.manifest_sha256, info.step};
}

InitFrom initial_weights(const LaunchArguments& a, const ModelConfig& model, const std::optional<Job>& earlier,
                         std::vector<std::string>& warnings) {
  const bool begun = earlier && has_begun(RunPaths{a.run_dir});
  const auto chosen = [&] {
    InitFrom from = choose_initial_weights(a.init_from, a.allow_intermediate, model);
    for (const std::string& remark : initial_weight_remarks(from, model))
      warnings.push_back(fmt::format("--init-from {}: {}", a.init_from, remark));
    return from;
  };
  if (a.init_from.empty()) return earlier ? earlier->init_from : InitFrom{};
  if (!begun) return chosen();
  const InitFrom& before = earlier->init_from;
  if (before.folder.empty())
    fail(ErrorKind::usage, fmt::format("--init-from {}: the run in {} did not start from other weights, and continues "
                                       "with its own; choose another --run-dir to start a new run",
                                       a.init_from, a.run_dir));
  const std::string asked = fs::absolute(a.init_from).lexically_normal().string();
  if (asked == before.asked || asked == before.folder) return before;  // it need not be there any more
  if (chosen().manifest_sha256 != before.manifest_sha256)
    fail(ErrorKind::usage, fmt::format("--init-from {} is another checkpoint than the one that the run in {} started "
                                       "from, {}; choose another --run-dir to start a new run",
                                       a.init_from, a.run_dir, before.folder));
  return before;
}

void check_resumed_path(const LaunchArguments& a, const Job& job) {
  const bool asked = is_path(a.request.resume);
  const std::string& from = asked ? a.request.resume : job.resume;
  if (!is_path(from)) return;
  std::error_code ignored;
  if (!is_checkpoint_folder(from) && fs::exists(fs::path(from) / "config.json", ignored))
    fail(ErrorKind::checkpoint,
         fmt::format("--resume {0} is a Hugging Face folder: it holds weights, and no state to go on with. Make a "
                     "checkpoint of it: trainctl checkpoint import --from hf {0} --output DIR; and start from its "
                     "weights: --init-from DIR instead of --resume",
                     from));
  check_resume(from, [&] {
    // "8", "step-8": somebody means a step of the run.
    const bool bare = !fs::path(from).has_parent_path() && !a.run_dir.empty();
    return what_is_there_instead(bare ? RunPaths{a.run_dir}.checkpoints() / from : fs::path(from));
  });
  if (!asked || a.run_dir.empty()) return;
  const fs::path own = RunPaths{a.run_dir}.checkpoints();
  std::error_code absent;
  if (fs::equivalent(checkpoint_root_of(fs::canonical(from)), own, absent)) return;
  const std::vector<UsableState> states = usable_states({a.run_dir}, job.run_id);
  if (!states.empty())
    fail(ErrorKind::usage,
         fmt::format("--resume {}: that is no state of the run in {}, which has its own (step {} is the newest); to go "
                     "on with those leave --resume out, to go on from the other choose another --run-dir",
                     from, a.run_dir, states.front().step));
}

EarlierRunFiles::EarlierRunFiles(const RunPaths& paths) : paths_(paths) {
  if (!fs::exists(paths.launch())) return;
  launch_ = read_file(paths.launch());
  if (fs::exists(paths.recipe())) recipe_ = read_file(paths.recipe());
}

void EarlierRunFiles::put_back() const {
  if (!launch_.empty()) {
    if (!recipe_.empty()) write_file_atomically(behind_links(paths_.recipe()), recipe_);
    write_file_atomically(behind_links(paths_.launch()), launch_);
    return;
  }
  std::error_code ignored;
  for (const fs::path& file : {paths_.launch(), paths_.plan(), paths_.recipe()}) fs::remove(file, ignored);
}

}  // namespace trainctl
