// tests/mpi/comm_mpi_test.cpp -- the laws of the threads backend, between real processes; any number of ranks >= 2.
#include <numeric>

#include "comm/backends.h"
#include "comm/world.h"
#include "support/catch.h"
#include "support/collective_laws.h"

using namespace trainctl;
using namespace trainctl::testing;

namespace {

std::vector<int> everyone(const Collectives& backend) {
  std::vector<int> ranks(static_cast<size_t>(backend.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

GroupInfo world_of(const Collectives& backend, int id = 0) {
  return group_of(id, "world", everyone(backend), backend.rank());
}

}  // namespace

TEST_CASE("every collective between processes equals serial arithmetic bit by bit", "[comm][mpi]") {
  for (const int64_t chunk : {int64_t{1000}, int64_t{1} << 20}) {
    const auto backend = make_mpi_world_collectives({.message_chunk_bytes = chunk});
    check_all_collectives(*backend, world_of(*backend), chunk);
    backend->finalize();
  }
}

TEST_CASE("groups of processes work beside each other, with many operations in flight", "[comm][mpi]") {
  const auto backend = make_mpi_world_collectives({.message_chunk_bytes = 1024});
  const int r = backend->rank(), n = backend->size();
  std::vector<GroupInfo> groups = {world_of(*backend), world_of(*backend, 1), group_of(2, "alone", {r}, r)};
  std::vector<int> reversed = everyone(*backend);
  std::reverse(reversed.begin(), reversed.end());
  groups.push_back(group_of(3, "reversed", reversed, r));
  if (r < n / 2 * 2) groups.push_back(group_of(4, "pairs", {r / 2 * 2, r / 2 * 2 + 1}, r));
  for (uint64_t seed = 1; seed <= 3; ++seed) check_concurrent_groups(*backend, groups, 12, seed);
  backend->finalize();
}

TEST_CASE("two processes that send to each other before they receive do not block, at any size", "[comm][mpi]") {
  const auto backend = make_mpi_world_collectives();
  if (backend->rank() < 2)
    for (const int64_t elements : {int64_t{0}, int64_t{1}, int64_t{1000}, int64_t{100000}, int64_t{3000000}})
      check_crossing_sends(*backend, group_of(0, "pipeline", {0, 1}, backend->rank()), elements);
  backend->finalize();
}

TEST_CASE("processes that disagree about an operation are told what the other did", "[comm][mpi]") {
  // MPI cannot take back a message that is on its way, so what a failed operation used outlives the cases.
  static std::vector<std::unique_ptr<CollectiveTrial>> kept;
  for (const int64_t rows : {int64_t{100}, int64_t{20000}}) {
    const auto backend = make_mpi_world_collectives();
    CollectiveCase c{.operation = Operation::all_reduce, .dtype = DType::f32, .rows = rows};
    if (backend->rank() == 1) c.rows += 1;
    kept.push_back(std::make_unique<CollectiveTrial>(*backend, world_of(*backend), c));
    CollectiveTrial& trial = *kept.back();
    trial.start();
    std::string message;
    try {
      trial.wait();
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::comm);
      message = e.what();
    }
    // Of three ranks, those that agree with each other still hear from rank 1.
    CHECK_THAT(message, Catch::Contains("rank 1 issued operation #0 all_reduce sum of f32, " +
                                        std::to_string(4 * rows + 4) + " bytes"));
    CHECK_THAT(message, Catch::Contains(std::to_string(4 * rows) + " bytes"));
    CollectiveTrial later(*backend, world_of(*backend, 5), {.operation = Operation::barrier});
    later.start();
    CHECK_THROWS_WITH(later.wait(), Catch::Contains("an earlier operation failed: ranks of the world group"));
  }
}

TEST_CASE("a world of processes gathers text and knows its traffic", "[comm][mpi]") {
  const auto device = make_cpu_device();
  Arena arena(*device);
  const auto stream = device->make_compute_stream();
  auto backend = make_mpi_world_collectives();
  const int n = backend->size();
  World world(Mesh({.data = n}), std::move(backend), arena);
  const Tensor t(arena, {3000}, DType::f32, MemoryCategory::gradients);
  for (int i = 0; i < 3000; ++i) t.view().as<float>()[i] = static_cast<float>(world.rank());
  world.group(Axis::data).all_reduce(t, Reduce::max, *stream).wait();
  CHECK(t.view().as<float>()[2999] == static_cast<float>(n - 1));
  const auto texts = world.gather_text(std::string(static_cast<size_t>(world.rank() * 3000), 'a'), *stream);
  CHECK(texts.size() == (world.rank() == 0 ? static_cast<size_t>(n) : 0));
  for (size_t r = 0; r < texts.size(); ++r) CHECK(texts[r] == std::string(r * 3000, 'a'));
  REQUIRE(world.traffic().size() == 1);
  CHECK(world.traffic()[0].axis == "data");
  world.finalize();
}
