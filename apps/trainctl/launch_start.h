// apps/trainctl/launch_start.h -- from which state a launch starts: what --resume, --init-from and --skip-batches ask
// for, together with what the run in the run directory was told before.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/first_cause.h"
#include "launch/launch_plan.h"
#include "launch/run_directory.h"
#include "model/model_config.h"
#include "recipe/job.h"

namespace trainctl {

struct LaunchArguments {
  std::string recipe, topology, run_dir, worker, init_from;
  bool allow_intermediate = false;
  int64_t skip_batches = 0;
  LaunchRequest request;
  std::vector<std::string> overrides;
  bool dry_run = false;
};

// Contradictions among the arguments. Throws Error{usage}.
void check_start(const LaunchArguments& a);

// launch.json of the run in the run directory; nullopt when there is none. Throws Error{input} when it cannot be read:
// what it remembers must not be forgotten silently.
std::optional<Job> earlier_job(const LaunchArguments& a);

// The checkpoint to start from at step 0, or none. A run remembers it: as long as it has no checkpoint, going on with
// it means starting from there again. `warnings` gets what the source's recipe says otherwise. Throws Error{usage} when
// a run that has begun started from something else; as choose_initial_weights.
InitFrom initial_weights(const LaunchArguments& a, const ModelConfig& model, const std::optional<Job>& earlier,
                         std::vector<std::string>& warnings);

// The id of a run: that of the run in the run directory, or a new one, which begins with the recipe's name.
std::string run_id(const std::string& recipe_name, const std::optional<Job>& earlier);

// What `--resume auto` would take, newest first: usable training states of the run itself.
std::vector<UsableState> usable_states(const RunPaths& paths, const std::string& run_id);

// A run that says that it saved states and has none is not started anew. Throws Error{checkpoint}.
void check_lost_states(const LaunchArguments& a, const RunRecord& seen);

// As long as a run has saved nothing, going on with it means going on from the state elsewhere that it was told to:
// never afresh. Changes job.resume.
void remember_resume(Job& job, const LaunchArguments& a, const std::optional<Job>& earlier,
                     std::vector<std::string>& warnings);

// A path that --resume names, now or before, is a folder (else Error{checkpoint}, with what there is instead), and not
// of another run while this one has states of its own, which a plain relaunch would take again (Error{usage}).
void check_resumed_path(const LaunchArguments& a, const Job& job);

// What --skip-batches asks for now and asked for before: kept for a run that falls back to one of those checkpoints.
// One that names an older checkpoint leaves what was asked for after it or later. Changes job.skip, skipped_before.
void remember_skipped(Job& job, const LaunchArguments& a, const std::optional<Job>& earlier);

// recipe.json and launch.json as an earlier launch left them, for a launch that turns out to be refused.
class EarlierRunFiles {
 public:
  explicit EarlierRunFiles(const RunPaths& paths);
  void put_back() const;  // where there were none, what was written since goes: the folder holds no run

 private:
  RunPaths paths_;
  std::string recipe_, launch_;
};

}  // namespace trainctl
