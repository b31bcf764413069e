// lib/launch/slurm.h -- what Slurm's environment says about the allocation, and whether a plan agrees with it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace trainctl {

struct RankMap;

struct SlurmAllocation {
  std::optional<int64_t> tasks{};           // SLURM_NTASKS
  std::optional<int64_t> nodes{};           // SLURM_NNODES
  std::optional<int64_t> tasks_per_node{};  // SLURM_NTASKS_PER_NODE
  std::optional<int64_t> cpus_per_task{};   // SLURM_CPUS_PER_TASK
  std::vector<std::string> hosts{};         // SLURM_JOB_NODELIST, expanded; empty: not set
  bool any() const { return tasks || nodes || tasks_per_node || cpus_per_task || !hosts.empty(); }
};

// `lookup` has getenv's meaning: null when the variable is not set. Throws Error{environment} naming the variable when
// its value is no positive number or no host list.
SlurmAllocation slurm_allocation(const std::function<const char*(const char*)>& lookup);

// Throws Error{plan} that prints both numbers for every disagreement: tasks against ranks, nodes against hosts used,
// hosts outside the allocation.
void require_agreement(const SlurmAllocation& slurm, const RankMap& map);

}  // namespace trainctl
