// lib/recipe/stage_split.h -- layers per pipeline stage, balanced by cost.
#pragma once

#include <cstdint>
#include <vector>

#include "model/model_config.h"

namespace trainctl {

// FLOPs per token of one step (forward and backward, a multiply-add counts 2). The embedding is a table look-up: 0.
struct StageCosts {
  double layer = 1;      // each layer
  double embedding = 0;  // on the first stage
  double head = 0;       // on the last stage: output projection and loss
};

// Per layer 3 x 2 x (matrix elements + causal attention's s/2 x heads x head_dim x 2), head 3 x 2 x d_model x vocab.
// `model` must be resolved: kv_heads, head_dim, d_ff and vocab are set.
StageCosts stage_costs(const ModelConfig& model, int64_t sequence_tokens);

// Layers of each of `stages` stages, each >= 1, that minimise the largest stage cost, then the second largest, and so
// on; between equals, earlier stages get more. Requires 1 <= stages <= layers.
std::vector<int64_t> balance_stages(const StageCosts& costs, int64_t layers, int64_t stages);

}  // namespace trainctl
