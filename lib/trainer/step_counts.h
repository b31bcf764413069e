// lib/trainer/step_counts.h -- what one rank sends and computes in a step, and the sum over ranks: counters.json.
#pragma once

#include <optional>

#include "trainer/counters.h"
#include "trainer/engine.h"

namespace trainctl {

class StepCounts {
 public:
  explicit StepCounts(Engine& engine) : engine_(engine) {}

  void begin();  // a step
  // The step begun last. False when it sent or computed another amount than the one before it.
  bool end();
  // Collective: of the last step and the memory's peak, from every rank; nullopt on other ranks than 0, and when no
  // step was made.
  std::optional<RunCounters> gather(int64_t model_flops, int64_t limit_bytes_per_rank);

 private:
  Engine& engine_;
  std::vector<TrafficRow> traffic_before_;
  int64_t flops_before_ = 0;
  std::optional<RankCounters> last_;
};

}  // namespace trainctl
