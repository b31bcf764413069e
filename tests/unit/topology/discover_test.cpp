// tests/unit/topology/discover_test.cpp -- what discovery finds is sound, and measured rates are rates.
#include "topology/discover.h"

#include <chrono>
#include <thread>

#include "base/error.h"
#include "support/catch.h"
#include "topology/flop_loop.h"
#include "topology/measure.h"
#include "topology/rank_map.h"

using namespace trainctl;

TEST_CASE("every FLOP loop this processor can run computes its exact sums", "[topology][discover]") {
  std::vector<FlopLoop> loops = f32_flop_loops();
  for (const FlopLoop& loop : bf16_flop_loops()) loops.push_back(loop);
  CHECK(std::string(f32_flop_loops().back().instruction) == "portable");
  for (const FlopLoop& loop : loops) {
    INFO(loop.instruction);
    REQUIRE(loop.chains * loop.lanes <= kMaxFlopResults);
    for (const int64_t iterations : {0, 1, 4096, 65536}) {
      std::vector<float> out(kMaxFlopResults, -1.0f);
      loop.run(iterations, out.data());
      double sum = 0, expected = 0;
      for (int i = 0; i < loop.chains * loop.lanes; ++i) {
        sum += double(out[size_t(i)]);
        expected += double(i / loop.lanes) + double(iterations) / 4096;
      }
      CHECK(sum == expected);
      CHECK(out[size_t(loop.chains * loop.lanes - 1)] == float(loop.chains - 1) + float(iterations) / 4096);
    }
  }
}

TEST_CASE("the time of a FLOP loop grows with its iterations: nothing is optimised away", "[topology][discover]") {
  const auto seconds = [](const FlopLoop& loop, int64_t iterations) {
    std::vector<float> out(kMaxFlopResults);
    double best = 1e9;
    for (int repeat = 0; repeat < 5; ++repeat) {
      const auto start = std::chrono::steady_clock::now();
      loop.run(iterations, out.data());
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    return best;
  };
  for (const FlopLoop& loop : f32_flop_loops()) {
    INFO(loop.instruction);
    CHECK(seconds(loop, 1 << 18) > 4 * seconds(loop, 1 << 14));
    // Below 64 lanes of multiply-add in each of 8 GHz: no processor core does more.
    CHECK(double(loop.flops_per_iteration) * (1 << 18) / seconds(loop, 1 << 18) < 128 * 8e9);
  }
}

TEST_CASE("measured rates are positive and say how they were made", "[topology][discover]") {
  const PeakFlops one = measure_peak_flops(1, FlopType::f32, 0.05);
  CHECK(one.threads == 1);
  CHECK(one.flops_per_s > 1e8);
  CHECK(one.instruction == f32_flop_loops().front().instruction);
  const PeakFlops half = measure_peak_flops(1, FlopType::bf16, 0.05);
  CHECK(half.instruction ==
        (bf16_flop_loops().empty() ? f32_flop_loops().front() : bf16_flop_loops().front()).instruction);
  CHECK(measure_peak_flops(0, FlopType::f32, 0.01).threads == usable_processors());
  // Threads that share processors do not add up to more than the processors can do.
  const PeakFlops all = measure_peak_flops(0, FlopType::f32, 0.1);
  const PeakFlops crowded = measure_peak_flops(4 * all.threads, FlopType::f32, 0.1);
  CHECK(crowded.flops_per_s < 1.5 * all.flops_per_s);
  CHECK(measure_memory_bandwidth(1, 8 << 20, 0.02) > 1e8);
  CHECK(measure_copy_rate(8 << 20, 0.02) > 1e8);
}

TEST_CASE("discovery writes a topology that loads and takes ranks", "[topology][discover]") {
  const TopologyConfig found = discover({.name = "here", .seconds_per_rate = 0.01});
  const TopologyConfig t = topology_from_text(to_json_text(found), "discovered.json");
  REQUIRE(t.node_types.size() == 1);
  const NodeType& type = t.node_types[0];
  CHECK(type.cores >= 1);
  CHECK(type.cores <= int64_t(std::max(1u, std::thread::hardware_concurrency())));
  CHECK(type.memory_bytes > (64 << 20));
  CHECK(type.peak_flops_f32 > 1e8);
  CHECK(type.peak_flops_bf16 > 1e8);
  CHECK(type.memory_bandwidth_bytes_per_s > 1e8);
  CHECK(origin_of(t, "node_types[0].peak_flops_f32") == "measured");
  CHECK(origin_of(t, "node_types[0].cores") == "reported");
  CHECK(origin_of(t, "node_types[0].link_latency_s") == "typed");
  CHECK(plan_ranks(t, Mesh({.data = type.cores})).ranks.size() == size_t(type.cores));
}

TEST_CASE("discovery without measuring leaves rates unknown", "[topology][discover]") {
  const TopologyConfig t = discover({.measure = false});
  CHECK(t.node_types[0].peak_flops_f32 == 0);
  CHECK(origin_of(t, "node_types[0].peak_flops_f32") == "");
  CHECK(check_topology(t, {}).empty());
}
