// tests/unit/topology/mesh_test.cpp -- laws of coordinates and groups on fixed and on random meshes.
#include "topology/mesh.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <set>

#include "base/error.h"
#include "support/catch.h"

using namespace trainctl;

namespace {

std::string random_order(std::mt19937& random) {
  std::vector<std::string> words = {"tp", "cp", "ep", "dp", "pp"};
  std::shuffle(words.begin(), words.end(), random);
  return words[0] + "-" + words[1] + "-" + words[2] + "-" + words[3] + "-" + words[4];
}

// Degrees whose product is at most `limit`.
MeshDegrees random_degrees(std::mt19937& random, int64_t limit) {
  const auto upto = [&](int64_t n) {
    return std::uniform_int_distribution<int64_t>(1, std::max<int64_t>(n, 1))(random);
  };
  MeshDegrees d;
  d.tensor = upto(std::min<int64_t>(limit, 9));
  limit /= d.tensor;
  d.context = upto(std::min<int64_t>(limit, 5));
  limit /= d.context;
  d.pipeline = upto(std::min<int64_t>(limit, 9));
  limit /= d.pipeline;
  d.expert = upto(std::min<int64_t>(limit, 6));
  d.data = d.expert * upto(limit / d.expert);
  return d;
}

void check_partition(const Mesh& mesh, const std::vector<std::vector<int>>& groups, size_t size) {
  std::vector<int> seen(static_cast<size_t>(mesh.world_size()), 0);
  bool sizes_agree = true;
  for (const std::vector<int>& group : groups) {
    sizes_agree = sizes_agree && group.size() == size;
    for (const int rank : group) ++seen.at(static_cast<size_t>(rank));
  }
  CHECK(sizes_agree);
  CHECK(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; }));
  CHECK(std::is_sorted(groups.begin(), groups.end(), [](const auto& a, const auto& b) { return a[0] < b[0]; }));
}

// Whether the coordinates of `a` and `b` agree on every axis but those in `free`.
bool agree_except(const Coordinates& a, const Coordinates& b, std::initializer_list<Axis> free) {
  for (const Axis axis : kAxes)
    if (std::find(free.begin(), free.end(), axis) == free.end() && a.along(axis) != b.along(axis)) return false;
  return true;
}

void check_laws(const Mesh& mesh) {
  const auto expert = static_cast<int>(mesh.degrees().expert);
  bool round_trips = true, inside = true, expert_of_data = true;
  std::set<std::array<int, 4>> places;
  for (int rank = 0; rank < mesh.world_size(); ++rank) {
    const Coordinates c = mesh.coordinates(rank);
    round_trips = round_trips && mesh.rank_of(c) == rank;
    for (const Axis axis : kAxes) inside = inside && c.along(axis) >= 0 && c.along(axis) < mesh.size(axis);
    expert_of_data = expert_of_data && c.expert == c.data % expert;
    places.insert({c.tensor, c.context, c.data, c.pipeline});
  }
  CHECK(round_trips);
  CHECK(inside);
  CHECK(expert_of_data);
  CHECK(places.size() == static_cast<size_t>(mesh.world_size()));

  for (const Axis axis : kAxes) {
    INFO("axis " << name(axis));
    const std::vector<std::vector<int>> groups = mesh.groups(axis);
    check_partition(mesh, groups, static_cast<size_t>(mesh.size(axis)));
    bool found_again = true, only_axis = true, ordered = true;
    for (const std::vector<int>& group : groups) {
      const Coordinates first = mesh.coordinates(group.front());
      for (size_t i = 0; i < group.size(); ++i) {
        const Coordinates c = mesh.coordinates(group[i]);
        ordered = ordered && c.along(axis) == static_cast<int>(i);
        if (axis == Axis::data)
          only_axis = only_axis && agree_except(c, first, {Axis::data, Axis::expert});
        else if (axis == Axis::expert)  // neighbouring data coordinates
          only_axis = only_axis && agree_except(c, first, {Axis::data, Axis::expert}) &&
                      c.data == first.data + static_cast<int>(i) && first.data % expert == 0;
        else
          only_axis = only_axis && agree_except(c, first, {axis});
      }
      found_again = found_again && mesh.group_of(group.back(), axis) == group;
    }
    CHECK(found_again);
    CHECK(only_axis);
    CHECK(ordered);
  }

  const std::vector<std::vector<int>> copies = mesh.expert_data_groups();
  check_partition(mesh, copies, static_cast<size_t>(mesh.degrees().data / mesh.degrees().expert));
  bool same_experts = true;
  for (const std::vector<int>& group : copies) {
    for (size_t i = 0; i < group.size(); ++i) {
      const Coordinates c = mesh.coordinates(group[i]), first = mesh.coordinates(group.front());
      same_experts = same_experts && agree_except(c, first, {Axis::data}) && c.data / expert == static_cast<int>(i);
    }
    same_experts = same_experts && mesh.expert_data_group_of(group.back()) == group;
  }
  CHECK(same_experts);
}

}  // namespace

TEST_CASE("the fastest axis groups neighbouring ranks", "[topology][mesh]") {
  const Mesh mesh({.tensor = 4, .data = 2, .pipeline = 2});
  CHECK(mesh.world_size() == 16);
  CHECK(mesh.group_of(5, Axis::tensor) == std::vector<int>{4, 5, 6, 7});
  CHECK(mesh.group_of(5, Axis::data) == std::vector<int>{1, 5});
  CHECK(mesh.group_of(5, Axis::pipeline) == std::vector<int>{5, 13});
  CHECK(mesh.group_of(5, Axis::context) == std::vector<int>{5});
}

TEST_CASE("another order moves the strides", "[topology][mesh]") {
  const Mesh mesh({.tensor = 4, .data = 2, .pipeline = 2}, "pp-dp-tp-ep-cp");
  CHECK(mesh.group_of(5, Axis::pipeline) == std::vector<int>{4, 5});
  CHECK(mesh.group_of(5, Axis::data) == std::vector<int>{5, 7});
  CHECK(mesh.group_of(5, Axis::tensor) == std::vector<int>{1, 5, 9, 13});
}

TEST_CASE("expert groups are neighbouring data ranks and expert-data groups hold the same experts",
          "[topology][mesh]") {
  const Mesh mesh({.tensor = 2, .expert = 2, .data = 4});
  CHECK(mesh.world_size() == 8);
  CHECK(mesh.groups(Axis::expert) == std::vector<std::vector<int>>{{0, 2}, {1, 3}, {4, 6}, {5, 7}});
  CHECK(mesh.group_of(0, Axis::data) == std::vector<int>{0, 2, 4, 6});
  CHECK(mesh.expert_data_groups() == std::vector<std::vector<int>>{{0, 4}, {1, 5}, {2, 6}, {3, 7}});
  // Data before expert in the order: neighbours in data are no longer neighbours in rank, but still one expert group.
  const Mesh other({.tensor = 1, .expert = 2, .data = 4}, "tp-cp-dp-ep-pp");
  CHECK(other.group_of(0, Axis::data) == std::vector<int>{0, 2, 1, 3});
  CHECK(other.group_of(0, Axis::expert) == std::vector<int>{0, 2});
}

TEST_CASE("coordinates and groups obey their laws on random meshes in random orders", "[topology][mesh][property]") {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    const MeshDegrees degrees = random_degrees(random, 400);
    const std::string order = random_order(random);
    INFO(product_text(degrees) << ", order " << order);
    check_laws(Mesh(degrees, order));
  }
}

TEST_CASE("the laws hold for 16384 ranks", "[topology][mesh][property]") {
  std::mt19937 random(12);
  for (int round = 0; round < 2; ++round)
    check_laws(Mesh({.tensor = 8, .context = 2, .expert = 8, .data = 64, .pipeline = 16}, random_order(random)));
}

TEST_CASE("all groups of 16384 ranks come in well under a second", "[topology][mesh]") {
  const auto start = std::chrono::steady_clock::now();
  const Mesh mesh({.tensor = 8, .context = 2, .expert = 8, .data = 64, .pipeline = 16});
  size_t members = 0;
  for (const Axis axis : kAxes)
    for (const std::vector<int>& group : mesh.groups(axis)) members += group.size();
  for (int rank = 0; rank < mesh.world_size(); ++rank) members += mesh.group_of(rank, Axis::data).size();
  CHECK(members == 5u * 16384u + 64u * 16384u);
  CHECK(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < 1.0);
}

TEST_CASE("a degree below one is refused by its recipe name", "[topology][mesh]") {
  CHECK_THROWS_WITH(Mesh({.tensor = 0}), Catch::Contains("tensor_parallel is 0"));
  CHECK_THROWS_WITH(Mesh({.context = -1}), Catch::Contains("context_parallel is -1"));
  CHECK_THROWS_WITH(Mesh({.expert = 0}), Catch::Contains("expert_parallel is 0"));
  CHECK_THROWS_WITH(Mesh({.data = 0}), Catch::Contains("data_parallel is 0"));
  CHECK_THROWS_WITH(Mesh({.pipeline = 0}), Catch::Contains("pipeline_parallel is 0"));
}

TEST_CASE("a world that cannot be numbered is refused without overflow", "[topology][mesh]") {
  CHECK_THROWS_WITH(Mesh({.tensor = 1 << 20, .data = 1 << 20}), Catch::Contains("more than the 2147483647 ranks"));
  CHECK_THROWS_WITH(Mesh({.tensor = INT64_MAX, .data = INT64_MAX}), Catch::Contains("more than the 2147483647 ranks"));
}

TEST_CASE("ranks and coordinates outside the mesh are refused", "[topology][mesh]") {
  const Mesh mesh({.tensor = 2, .expert = 2, .data = 2});
  CHECK_THROWS_WITH(mesh.coordinates(4), Catch::Contains("rank 4 is outside the world of 4"));
  CHECK_THROWS_AS(mesh.coordinates(-1), Error);
  CHECK_THROWS_AS(mesh.group_of(4, Axis::data), Error);
  CHECK_THROWS_WITH(mesh.rank_of({.tensor = 2}), Catch::Contains("tensor coordinate 2"));
  CHECK_THROWS_WITH(mesh.rank_of({.expert = 1, .data = 0}), Catch::Contains("modulo expert_parallel"));
}

TEST_CASE("an order that is no permutation of the axes is refused with the reason", "[topology][mesh]") {
  CHECK_THROWS_WITH(parse_order("tp-cp-ep-dp"), Catch::Contains("\"pp\" is missing"));
  CHECK_THROWS_WITH(parse_order("tp-cp-ep-dp-tp"), Catch::Contains("\"tp\" appears twice"));
  CHECK_THROWS_WITH(parse_order("tp-cp-ep-dp-xx"), Catch::Contains("\"xx\" is no axis"));
  CHECK_THROWS_WITH(parse_order("tp-cp-ep-dp-pp-"), Catch::Contains("\"\" is no axis"));
  CHECK_THROWS_WITH(parse_order(""), Catch::Contains("is no axis"));
  CHECK(parse_order("pp-dp-ep-cp-tp").front() == Axis::pipeline);
}
