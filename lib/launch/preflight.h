// lib/launch/preflight.h -- what must hold on this machine before a rank starts; everything else is in the plan.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "launch/launch_plan.h"

namespace trainctl {

// Checks that modules above or beside this one know how to make. An empty function is not called.
struct PreflightHooks {
  std::function<void(const Recipe&)> data{};                            // throws Error{input} for missing token files
  std::function<std::vector<std::string>(const LaunchPlan&)> memory{};  // one line per rank class that does not fit
  std::function<int64_t(const LaunchPlan&)> checkpoint_bytes{};         // of all checkpoints kept at once
};

// The first executable `program` on PATH, empty when there is none.
std::filesystem::path find_on_path(const std::string& program);

// trainctl_worker next to the running program.
std::filesystem::path default_worker();

// Throws Error{environment}: no worker, no plugin for the device, no mpirun or srun (with the Debian package), hosts
// that are neither this machine nor known to the resolver, too little free disk under `run_dir`; Error{input} and
// Error{plan} from the hooks.
void preflight(const LaunchPlan& plan, const std::filesystem::path& worker, const std::filesystem::path& run_dir,
               const PreflightHooks& hooks);

}  // namespace trainctl
