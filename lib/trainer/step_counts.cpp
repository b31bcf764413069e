// lib/trainer/step_counts.cpp -- see the header.
#include "trainer/step_counts.h"

#include <utility>

namespace trainctl {

void StepCounts::begin() {
  traffic_before_ = engine_.world->traffic();
  flops_before_ = engine_.context->flops();
}

bool StepCounts::end() {
  RankCounters now;
  now.rank = engine_.world->rank();
  now.hardware_flops = engine_.context->flops() - flops_before_;
  for (TrafficRow row : engine_.world->traffic()) {
    for (const TrafficRow& before : traffic_before_)
      if (before.axis == row.axis && before.operation == row.operation) {
        row.messages -= before.messages;
        row.bytes -= before.bytes;
      }
    if (row.messages > 0) now.traffic.push_back(std::move(row));
  }
  const bool same = !last_ || (last_->traffic == now.traffic && last_->hardware_flops == now.hardware_flops);
  last_ = std::move(now);
  return same;
}

std::optional<RunCounters> StepCounts::gather(int64_t model_flops, int64_t limit_bytes_per_rank) {
  if (!last_) return std::nullopt;
  last_->at_peak = engine_.arena->counters().at_peak;
  last_->peak_bytes = engine_.arena->counters().peak_total;
  const std::vector<std::string> texts = engine_.world->gather_text(pack(*last_), *engine_.stream);
  if (engine_.world->rank() != 0) return std::nullopt;
  std::vector<RankCounters> ranks;
  for (const std::string& text : texts) ranks.push_back(unpack_counters(text));
  return combine(ranks, model_flops, limit_bytes_per_rank);
}

}  // namespace trainctl
