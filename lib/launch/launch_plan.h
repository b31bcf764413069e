// lib/launch/launch_plan.h -- recipe + topology + allocation -> a Job: which rank runs where, with how many threads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launch/slurm.h"
#include "recipe/job.h"
#include "topology/rank_map.h"
#include "topology/topology_config.h"

namespace trainctl {

struct LaunchRequest {
  std::optional<int64_t> ranks{};                 // empty: SLURM_NTASKS, else the smallest world of the recipe
  std::string launcher = "mpirun";                // mpirun | srun | threads
  std::string resume = "auto";                    // auto | never | a checkpoint folder
  std::string bind = "auto";                      // auto | none | core
  bool oversubscribe = false;                     // more ranks than slots
  std::optional<int64_t> threads_per_rank{};      // empty: the recipe's, else cores / ranks of the host
  std::vector<std::string> launcher_arguments{};  // handed to mpirun or srun as they are
};

struct LaunchPlan {
  Job job;  // run_dir and build_id are still empty
  RankMap map;
  TopologyConfig topology;
  int64_t max_local_ranks = 1;
  bool bind_to_core = false;
  bool busy_cores = false;  // some host has more compute threads than cores: waiting ranks give way
  std::string binding;      // one sentence: threads and binding, and why
  std::vector<std::string> launcher_arguments;
  std::vector<std::string> warnings;
};

// `topology` must be free of faults. Throws Error{config} with the recipe's faults for this world size, Error{plan}
// when ranks do not fit the slots, the launcher cannot reach the hosts, or Slurm and the plan disagree.
LaunchPlan plan_launch(const LoadedRecipe& recipe, const TopologyConfig& topology, const SlurmAllocation& slurm,
                       const LaunchRequest& request);

}  // namespace trainctl
