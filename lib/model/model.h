// lib/model/model.h -- SEAM 1: build_model. Architecture only: no rank, no memory, no device.
#pragma once

#include <memory>
#include <vector>

#include "model/model_config.h"
#include "model/module.h"

namespace trainctl {

struct Model {
  ModelConfig config;
  std::vector<std::unique_ptr<Module>> modules;  // embedding, blocks in order, head; tensors not allocated
};

// `config` is resolved: every optional field has a value. Throws Error{config} for an unknown family.
Model build_model(const ModelConfig& config);

// Distinct logical parameters (tied ones once).
int64_t parameter_count(const Model& model);

// Model FLOPs of `sequences` sequences of `sequence_tokens`, forward and backward: 3 x forward, where forward is 2 per
// weight and token of every matrix product (projections and head; embedding lookups 0) plus 4 C per causal pair and
// query head, S(S+1)/2 pairs. Recomputation is not counted. See lib/runtime/FLOPS.md.
int64_t model_flops(const ModelConfig& config, int64_t sequences, int64_t sequence_tokens);

}  // namespace trainctl
