// tests/unit/topology/topology_recipes_test.cpp -- the topology files that ship load, and describe what they claim.
#include <cstdlib>
#include <filesystem>

#include "support/catch.h"
#include "topology/rank_map.h"

using namespace trainctl;

namespace {
std::filesystem::path folder() {
  const char* source = std::getenv("TRAINCTL_SOURCE");
  return std::filesystem::path(source ? source : ".") / "recipes" / "topologies";
}
}  // namespace

TEST_CASE("every shipped topology loads and takes a full world of ranks", "[topology][recipes]") {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder())) {
    if (entry.path().extension() != ".json") continue;
    INFO(entry.path().filename().string());
    ++files;
    const TopologyConfig t = load_topology(entry.path());
    CHECK(entry.path().stem() == t.name);
    int64_t slots = 0;
    for (const Host& host : expand_hosts(t)) slots += slots_of(t.node_types[size_t(host.type)]);
    const RankMap map = plan_ranks(t, Mesh({.data = slots}));
    CHECK(map.ranks.size() == size_t(slots));
    CHECK(map.warnings.empty());
  }
  CHECK(files >= 3);
}

TEST_CASE("the H100 cluster has 2048 devices behind eight leaf switches", "[topology][recipes]") {
  const TopologyConfig t = load_topology(folder() / "h100_256nodes.json");
  const std::vector<Host> hosts = expand_hosts(t);
  CHECK(hosts.size() == 256);
  CHECK(hosts.front().name == "n001");
  CHECK(hosts.back().name == "n256");
  CHECK(slots_of(t.node_types[0]) == 8);
  CHECK(oversubscription_between(t, hosts[0], hosts[31]) == 1);
  CHECK(oversubscription_between(t, hosts[31], hosts[32]) == 2);
  const RankMap map = plan_ranks(t, Mesh({.tensor = 8, .data = 16, .pipeline = 16}));
  CHECK(map.hosts.size() == 256);
  CHECK(map.warnings.empty());
  const RankMap split = plan_ranks(t, Mesh({.tensor = 16, .data = 8, .pipeline = 16}));
  REQUIRE(split.warnings.size() == 1);
  CHECK_THAT(split.warnings[0], Catch::Contains("128 of 128 tensor groups") && Catch::Contains("50 GB/s") &&
                                    Catch::Contains("450 GB/s") && Catch::Contains("9.0 times slower"));
}
