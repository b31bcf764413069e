// lib/trainer/counters.h -- the numbers that the dry run predicts and the run counts: one struct, filled twice.
#pragma once

#include <array>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "comm/world.h"
#include "device/arena.h"

namespace trainctl {

// Of one rank. Traffic and FLOPs are those of one training step; memory is the peak since the start.
struct RankCounters {
  int rank = 0;
  std::array<int64_t, kMemoryCategories> at_peak{};
  int64_t peak_bytes = 0;
  int64_t hardware_flops = 0;
  std::vector<TrafficRow> traffic;
  bool operator==(const RankCounters&) const = default;
};

// Of a run: ranks with equal memory are one class.
struct MemoryClass {
  std::vector<int> ranks;  // ascending
  std::array<int64_t, kMemoryCategories> at_peak{};
  int64_t peak_bytes = 0;
  int64_t limit_bytes = 0;  // 0: not known
  bool fits() const { return limit_bytes == 0 || peak_bytes <= limit_bytes; }
};
struct RunCounters {
  std::vector<MemoryClass> memory;              // by first rank
  std::vector<TrafficRow> traffic;              // summed over ranks, by axis and operation
  int64_t model_flops = 0, hardware_flops = 0;  // per step, all ranks
};

inline constexpr const char* kFlopsFormula = "causal-half-attention, recompute excluded (lib/runtime/FLOPS.md)";

RunCounters combine(const std::vector<RankCounters>& ranks, int64_t model_flops, int64_t limit_bytes_per_rank);

// The sections memory, traffic and flops of `trainctl plan --json` and of counters.json.
nlohmann::ordered_json to_json(const RunCounters& counters);
RunCounters run_counters_from_json(const nlohmann::json& json);  // throws Error{input}

// One line per rank, for the way to rank 0.
std::string pack(const RankCounters& counters);
RankCounters unpack_counters(const std::string& text);

}  // namespace trainctl
