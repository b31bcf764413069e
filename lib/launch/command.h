// lib/launch/command.h -- the exact command line that starts the ranks.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launch/launch_plan.h"

namespace trainctl {

struct Command {
  std::vector<std::string> argv;                                 // argv[0] is looked up on PATH
  std::vector<std::pair<std::string, std::string>> environment;  // added to the caller's
};

// What the command line depends on besides the plan.
struct HostTraits {
  bool root = false;         // Open MPI refuses root unless told twice
  int64_t cores = 0;         // that this process may use; 0: not known
  bool cross_memory = true;  // ranks of this machine may read each other's memory
};
HostTraits host_traits();  // of this machine; tries a cross-memory read with a forked child

// mpirun: places ranks in the plan's order, binds as planned, oversubscribes only when the plan does, has no fixed
// ports. srun: restates cpus-per-task and cpu-bind, which Slurm does not hand on. threads: one process.
// Throws Error{plan} when srun cannot express the placement (hosts with unequal numbers of ranks but the last).
Command launch_command(const LaunchPlan& plan, const std::filesystem::path& worker,
                       const std::filesystem::path& launch_json, const HostTraits& host);

std::string shell_quote(std::string_view word);  // as one word of a POSIX shell
std::string shell_line(const Command& command);  // "NAME=value program argument ...", ready to paste

}  // namespace trainctl
