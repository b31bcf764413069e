// tests/fault/checkpoint/in_parallel.h -- independent trials side by side: each spends most of its time waiting for the
// disk to sync.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace trainctl::testing {

inline int parallel_trials() { return static_cast<int>(std::max(2u, 2 * std::thread::hardware_concurrency())); }

// fault_of(lane, i) for every i in [0, count), in any order, no lane twice at a time; lanes count from 0 to
// parallel_trials() - 1. The faults by i ("" for none); what a trial throws is its fault.
template <class FaultOf>
std::vector<std::string> in_parallel(size_t count, const FaultOf& fault_of) {
  std::vector<std::string> faults(count);
  std::atomic<size_t> next{0};
  std::vector<std::thread> lanes;
  for (int lane = 0; lane < parallel_trials(); ++lane)
    lanes.emplace_back([&, lane] {
      for (size_t i = next++; i < count; i = next++) {
        try {
          faults[i] = fault_of(lane, i);
        } catch (const std::exception& e) {
          faults[i] = std::string("the trial ended early: ") + e.what();
        }
      }
    });
  for (std::thread& lane : lanes) lane.join();
  return faults;
}

}  // namespace trainctl::testing
