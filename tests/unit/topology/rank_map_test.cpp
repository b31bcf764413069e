// tests/unit/topology/rank_map_test.cpp -- placement laws, warnings with their cost, refusals with their numbers.
#include "topology/rank_map.h"

#include <algorithm>
#include <random>

#include "base/error.h"
#include "support/catch.h"

using namespace trainctl;

namespace {

TopologyConfig cpu_nodes(const std::string& names, int64_t cores) {
  TopologyConfig t;
  t.name = "test";
  NodeType type;
  type.name = "node";
  type.cores = cores;
  type.memory_bytes = 1 << 30;
  type.link_bytes_per_s = 40e9;
  type.nics = 2;
  type.nic_bytes_per_s = 10e9;
  t.node_types = {type};
  t.nodes = {{names, "node", ""}};
  return t;
}

std::string refusal(const TopologyConfig& t, const Mesh& mesh, const PlacementOptions& options = {}) {
  try {
    plan_ranks(t, mesh, options);
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::plan);
    return e.what();
  }
  FAIL("an impossible placement was accepted");
  return "";
}

std::vector<int> counts(const RankMap& map) {
  std::vector<int> result;
  for (const HostPlace& h : map.hosts) result.push_back(h.num_ranks);
  return result;
}

}  // namespace

TEST_CASE("nodes are filled in order with consecutive ranks", "[topology][rank_map]") {
  const RankMap map = plan_ranks(cpu_nodes("n[1-3]", 4), Mesh({.tensor = 2, .data = 3, .pipeline = 1}));
  REQUIRE(map.ranks.size() == 6);
  CHECK(counts(map) == std::vector<int>{4, 2});
  CHECK(map.host_name(3) == "n1");
  CHECK(map.host_name(4) == "n2");
  CHECK(map.ranks[5].local_rank == 1);
  CHECK(map.ranks[5].device == 1);
  CHECK(map.ranks[5].coordinates == Coordinates{.tensor = 1, .data = 2});
  CHECK(map.device_kind == "cpu");
  CHECK(map.warnings.empty());
}

TEST_CASE("placement keeps its laws on random topologies and meshes", "[topology][rank_map][property]") {
  std::mt19937 random(31);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<>(low, high)(random); };
  int placed = 0;
  for (int round = 0; round < 300; ++round) {
    const int nodes = pick(1, 6), cores = pick(1, 9);
    const TopologyConfig t = cpu_nodes("n[1-" + std::to_string(nodes) + "]", cores);
    const Mesh mesh({.tensor = pick(1, 4), .data = pick(1, 4), .pipeline = pick(1, 3)});
    const int world = mesh.world_size();
    INFO(nodes << " nodes of " << cores << ", " << product_text(mesh.degrees()));
    if (world > nodes * cores) {
      CHECK_THROWS_AS(plan_ranks(t, mesh), Error);
      continue;
    }
    ++placed;
    const RankMap map = plan_ranks(t, mesh);
    REQUIRE(map.ranks.size() == size_t(world));
    std::vector<int> seen(map.hosts.size(), 0);
    int crossing = 0;
    for (int r = 0; r < world; ++r) {
      const RankPlace& place = map.ranks[size_t(r)];
      CHECK(place.rank == r);
      CHECK(place.coordinates == mesh.coordinates(r));
      CHECK(place.local_rank == seen[size_t(place.host)]++);
      CHECK(place.device == place.local_rank);
      CHECK(place.local_rank < cores);
      CHECK(r == map.hosts[size_t(place.host)].first_rank + place.local_rank);
      CHECK((r == 0 || place.host >= map.ranks[size_t(r - 1)].host));
    }
    for (const auto& group : mesh.groups(Axis::tensor))
      crossing += map.ranks[size_t(group.front())].host != map.ranks[size_t(group.back())].host ? 1 : 0;
    CHECK(map.warnings.size() == (crossing > 0 ? 1u : 0u));
    // No tensor group is split where whole groups fit.
    const int tensor = mesh.size(Axis::tensor);
    if (nodes * (cores / tensor) * tensor >= world) CHECK(crossing == 0);
  }
  CHECK(placed > 50);
}

TEST_CASE("last slots stay free rather than split a tensor group, when there is room", "[topology][rank_map]") {
  CHECK(counts(plan_ranks(cpu_nodes("n[1-3]", 6), Mesh({.tensor = 4, .data = 3}))) == std::vector<int>{4, 4, 4});
  const RankMap full = plan_ranks(cpu_nodes("n[1-2]", 6), Mesh({.tensor = 4, .data = 3}));
  CHECK(counts(full) == std::vector<int>{6, 6});
  REQUIRE(full.warnings.size() == 1);
  // 2 ports x 10 GB/s over 6 ranks against 40 GB/s inside: 12 times.
  CHECK_THAT(full.warnings[0], Catch::Contains("1 of 3 tensor groups leave their node") &&
                                   Catch::Contains("ranks 4 to 7 on n1 and n2") && Catch::Contains("3.33 GB/s") &&
                                   Catch::Contains("40 GB/s") && Catch::Contains("12.0 times slower"));
}

TEST_CASE("oversubscribed switches count in the cost of a tensor group that crosses them", "[topology][rank_map]") {
  TopologyConfig t = cpu_nodes("n1", 2);
  t.nodes = {{"n1", "node", "a"}, {"n2", "node", "b"}};
  t.switches = {{"a", 4, 5e9, "top"}, {"b", 2, 0, "top"}, {"top", 1, 0, ""}};
  const RankMap map = plan_ranks(t, Mesh({.tensor = 4}));
  REQUIRE(map.warnings.size() == 1);
  // Ports limited to 5 GB/s by switch a: 2 x 5 / 2 ranks / 4 = 1.25 GB/s.
  CHECK(network_bytes_per_s(t, map.hosts[0], map.hosts[1]) == Approx(1.25e9));
  CHECK_THAT(map.warnings[0], Catch::Contains("1.25 GB/s") && Catch::Contains("oversubscription 4") &&
                                  Catch::Contains("32.0 times slower"));
  t.node_types[0].nics = 0;
  CHECK_THAT(plan_ranks(t, Mesh({.tensor = 4})).warnings.at(0), Catch::Contains("its cost is not known"));
}

TEST_CASE("more ranks than slots is refused with the numbers and what is legal", "[topology][rank_map]") {
  const std::string text = refusal(cpu_nodes("n[1-2]", 4), Mesh({.tensor = 2, .data = 8}));
  CHECK_THAT(text, Catch::Contains("16 ranks do not fit topology \"test\"") && Catch::Contains("tensor_parallel 2") &&
                       Catch::Contains("data_parallel 8") && Catch::Contains("8 slots (2 nodes, one rank per core)") &&
                       Catch::Contains("data_parallel 4 (8 ranks)") && Catch::Contains("4 nodes like these") &&
                       Catch::Contains("oversubscription"));
  CHECK_THAT(refusal(cpu_nodes("n1", 2), Mesh({.tensor = 4})),
             Catch::Contains("lower degrees whose product is at most 2") && Catch::Contains("1 node, "));
  // Expert groups must stay whole: 7 slots hold data_parallel 6, not 7.
  CHECK_THAT(refusal(cpu_nodes("n1", 7), Mesh({.expert = 3, .data = 9})), Catch::Contains("data_parallel 6 (6 ranks)"));
}

TEST_CASE("oversubscription is explicit, spread evenly and announced", "[topology][rank_map]") {
  const RankMap map = plan_ranks(cpu_nodes("n[1-2]", 2), Mesh({.data = 7}), {.oversubscribe = true});
  CHECK(counts(map) == std::vector<int>{4, 3});
  CHECK(map.oversubscribed);
  CHECK(map.ranks[3].device == 1);
  REQUIRE(map.warnings.size() == 1);
  CHECK_THAT(map.warnings[0], Catch::Contains("4 ranks share the 2 cores of host n1"));
  CHECK_FALSE(plan_ranks(cpu_nodes("n[1-2]", 2), Mesh({.data = 4}), {.oversubscribe = true}).oversubscribed);
}

TEST_CASE("ranks per node is obeyed or refused", "[topology][rank_map]") {
  const TopologyConfig t = cpu_nodes("n[1-4]", 4);
  CHECK(counts(plan_ranks(t, Mesh({.data = 6}), {.ranks_per_node = 2})) == std::vector<int>{2, 2, 2});
  CHECK_THAT(refusal(t, Mesh({.data = 6}), {.ranks_per_node = 5}),
             Catch::Contains("5 ranks per node") && Catch::Contains("legal: 1 to 4"));
  CHECK_THAT(refusal(t, Mesh({.data = 6}), {.ranks_per_node = 0}), Catch::Contains("at least 1"));
  CHECK_THAT(refusal(t, Mesh({.data = 6}), {.ranks_per_node = 1}), Catch::Contains("has 4 slots"));
  CHECK(counts(plan_ranks(t, Mesh({.data = 8}), {.ranks_per_node = 8, .oversubscribe = true})) == std::vector<int>{8});
}

TEST_CASE("cuda nodes take one rank per device and never more", "[topology][rank_map]") {
  TopologyConfig t = cpu_nodes("g[1-2]", 64);
  t.node_types[0].devices.kind = "cuda";
  t.node_types[0].devices.count = 4;
  const RankMap map = plan_ranks(t, Mesh({.tensor = 4, .data = 2}));
  CHECK(counts(map) == std::vector<int>{4, 4});
  CHECK(map.device_kind == "cuda");
  CHECK_THAT(refusal(t, Mesh({.data = 9})),
             Catch::Contains("one rank per device") && !Catch::Contains("oversubscription when asked"));
  CHECK_THAT(refusal(t, Mesh({.data = 9}), {.oversubscribe = true}), Catch::Contains("takes one rank"));
}

TEST_CASE("mixed node types are refused across device kinds and announced within one", "[topology][rank_map]") {
  TopologyConfig t = cpu_nodes("n1", 2);
  t.node_types.push_back(t.node_types[0]);
  t.node_types[1].name = "slow";
  t.nodes.push_back({"m1", "slow", ""});
  CHECK_THAT(plan_ranks(t, Mesh({.data = 4})).warnings.at(0), Catch::Contains("n1 is \"node\", m1 is \"slow\""));
  t.node_types[1].devices = {.kind = "cuda", .count = 2, .memory_bytes = 1};
  CHECK_THAT(refusal(t, Mesh({.data = 4})), Catch::Contains("one job needs one device kind"));
}

TEST_CASE("16384 ranks are placed in well under a second", "[topology][rank_map]") {
  const RankMap map = plan_ranks(cpu_nodes("n[0001-2048]", 8), Mesh({.tensor = 8, .data = 128, .pipeline = 16}));
  CHECK(map.ranks.back().host == 2047);
  CHECK(map.warnings.empty());
}
