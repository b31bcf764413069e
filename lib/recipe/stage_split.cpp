// lib/recipe/stage_split.cpp -- equal items on unequal starts: the least loaded stage takes the next layer.
#include "recipe/stage_split.h"

#include <queue>
#include <utility>

#include "base/error.h"

namespace trainctl {

StageCosts stage_costs(const ModelConfig& m, int64_t sequence_tokens) {
  ensure(m.kv_heads && m.head_dim && m.d_ff && m.vocab.value, "stage_costs needs a resolved model");
  const auto d = static_cast<double>(m.d_model), ff = static_cast<double>(*m.d_ff);
  const double q = static_cast<double>(m.heads) * static_cast<double>(*m.head_dim);
  const double kv = static_cast<double>(*m.kv_heads) * static_cast<double>(*m.head_dim);
  const double matrices = d * q + 2 * d * kv + q * d + (m.family == "gpt2" ? 2 : 3) * d * ff;
  const double attention = q * static_cast<double>(sequence_tokens);  // scores and values, half of each: causal
  return {.layer = 6 * (matrices + attention), .embedding = 0, .head = 6 * d * static_cast<double>(*m.vocab.value)};
}

// For equal layers this is exact: moving a layer off a stage can only help if it lands where the cost stays below what
// it was, and that is where it was put.
std::vector<int64_t> balance_stages(const StageCosts& costs, int64_t layers, int64_t stages) {
  ensure(stages >= 1 && layers >= stages, "balance_stages needs 1 <= stages <= layers");
  std::vector<int64_t> split(static_cast<size_t>(stages), 1);
  using Entry = std::pair<double, size_t>;  // cost with one layer more, stage: the cheapest, then the earliest, first
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> next;
  const auto cost = [&](size_t stage) {
    return static_cast<double>(split[stage] + 1) * costs.layer + (stage == 0 ? costs.embedding : 0) +
           (stage + 1 == split.size() ? costs.head : 0);
  };
  for (size_t s = 0; s < split.size(); ++s) next.emplace(cost(s), s);
  for (int64_t left = layers - stages; left > 0; --left) {
    const size_t s = next.top().second;
    next.pop();
    ++split[s];
    next.emplace(cost(s), s);
  }
  return split;
}

}  // namespace trainctl
