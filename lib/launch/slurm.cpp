// lib/launch/slurm.cpp -- reads SLURM_* and compares it with the rank map.
#include "launch/slurm.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/error.h"
#include "base/json_node.h"
#include "base/units.h"
#include "topology/hostlist.h"
#include "topology/rank_map.h"

namespace trainctl {
namespace {

std::optional<int64_t> positive(const std::function<const char*(const char*)>& lookup, const char* variable) {
  const char* text = lookup(variable);
  if (text == nullptr || *text == '\0') return std::nullopt;
  int64_t value = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc() || stop != end || value < 1)
    fail(ErrorKind::environment, fmt::format("the environment variable {} is {}; a number >= 1 is expected. Unset it, "
                                             "or start inside a Slurm allocation.",
                                             variable, in_quotes(text)));
  return value;
}

}  // namespace

SlurmAllocation slurm_allocation(const std::function<const char*(const char*)>& lookup) {
  SlurmAllocation slurm;
  slurm.tasks = positive(lookup, "SLURM_NTASKS");
  slurm.nodes = positive(lookup, "SLURM_NNODES");
  slurm.tasks_per_node = positive(lookup, "SLURM_NTASKS_PER_NODE");
  slurm.cpus_per_task = positive(lookup, "SLURM_CPUS_PER_TASK");
  if (const char* list = lookup("SLURM_JOB_NODELIST"); list != nullptr && *list != '\0') {
    try {
      slurm.hosts = expand_hostlist(list);
    } catch (const Error& e) {
      fail(ErrorKind::environment,
           fmt::format("the environment variable SLURM_JOB_NODELIST is {}: {}", in_quotes(list), e.what()));
    }
  }
  return slurm;
}

void require_agreement(const SlurmAllocation& slurm, const RankMap& map) {
  std::string faults;
  const auto ranks = static_cast<int64_t>(map.ranks.size());
  const auto hosts = static_cast<int64_t>(map.hosts.size());
  if (slurm.tasks && *slurm.tasks != ranks)
    faults += fmt::format("\n  SLURM_NTASKS={}, but the plan has {}", *slurm.tasks, counted(ranks, "rank"));
  if (slurm.nodes && *slurm.nodes != hosts)
    faults += fmt::format("\n  SLURM_NNODES={}, but the plan uses {}", *slurm.nodes, counted(hosts, "host"));
  if (!slurm.hosts.empty()) {
    std::vector<std::string> outside;
    for (const HostPlace& place : map.hosts)
      if (place.host.name != "localhost" &&
          std::find(slurm.hosts.begin(), slurm.hosts.end(), place.host.name) == slurm.hosts.end())
        outside.push_back(place.host.name);
    if (!outside.empty())
      faults += fmt::format("\n  SLURM_JOB_NODELIST={}, but the plan uses {}", compress_hostlist(slurm.hosts),
                            compress_hostlist(outside));
  }
  if (!faults.empty())
    fail(ErrorKind::plan, "the Slurm allocation and the plan disagree:" + faults +
                              "\nGive --ranks and a --topology that match the allocation, or unset the variables.");
}

}  // namespace trainctl
