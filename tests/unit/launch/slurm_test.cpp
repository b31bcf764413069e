// tests/unit/launch/slurm_test.cpp -- the allocation's environment against the plan.
#include "launch/slurm.h"

#include <map>

#include "base/error.h"
#include "support/catch.h"
#include "topology/rank_map.h"

namespace trainctl {
namespace {

using Catch::Contains;

SlurmAllocation from(const std::map<std::string, std::string>& variables) {
  return slurm_allocation([&](const char* name) -> const char* {
    const auto at = variables.find(name);
    return at == variables.end() ? nullptr : at->second.c_str();
  });
}

RankMap map_of(int ranks, const std::vector<std::string>& hosts) {
  RankMap map;
  map.ranks.resize(static_cast<size_t>(ranks));
  for (const std::string& host : hosts) map.hosts.push_back({.host = {.name = host}});
  return map;
}

}  // namespace

TEST_CASE("variables that are not set say nothing", "[launch]") {
  CHECK_FALSE(from({}).any());
  CHECK_FALSE(from({{"SLURM_NTASKS", ""}}).any());
  CHECK_NOTHROW(require_agreement(from({}), map_of(8, {"a"})));
}

TEST_CASE("the allocation is read whole", "[launch]") {
  const SlurmAllocation slurm = from({{"SLURM_NTASKS", "8"},
                                      {"SLURM_NNODES", "2"},
                                      {"SLURM_NTASKS_PER_NODE", "4"},
                                      {"SLURM_CPUS_PER_TASK", "3"},
                                      {"SLURM_JOB_NODELIST", "n[01-02]"}});
  CHECK(slurm.tasks == 8);
  CHECK(slurm.nodes == 2);
  CHECK(slurm.tasks_per_node == 4);
  CHECK(slurm.cpus_per_task == 3);
  CHECK(slurm.hosts == std::vector<std::string>{"n01", "n02"});
  CHECK_NOTHROW(require_agreement(slurm, map_of(8, {"n01", "n02"})));
}

TEST_CASE("every disagreement prints both sides, all at once", "[launch]") {
  const SlurmAllocation slurm = from({{"SLURM_NTASKS", "4"}, {"SLURM_NNODES", "2"}, {"SLURM_JOB_NODELIST", "n[1-2]"}});
  CHECK_THROWS_WITH(require_agreement(slurm, map_of(8, {"m7"})),
                    Contains("SLURM_NTASKS=4, but the plan has 8 ranks") &&
                        Contains("SLURM_NNODES=2, but the plan uses 1 host") &&
                        Contains("n[1-2], but the plan uses m7"));
}

TEST_CASE("values that are no numbers are refused with the variable's name", "[launch]") {
  for (const char* bad : {"x", "0", "-1", "4(x2)", "99999999999999999999", "1.5"})
    CHECK_THROWS_WITH(from({{"SLURM_NTASKS", bad}}), Contains("SLURM_NTASKS") && Contains(bad));
  CHECK_THROWS_WITH(from({{"SLURM_JOB_NODELIST", "n[2-1]"}}), Contains("SLURM_JOB_NODELIST"));
}

}  // namespace trainctl
