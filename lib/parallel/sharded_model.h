// lib/parallel/sharded_model.h -- what apply_parallelism hands over: one rank's part of the model, with its memory.
#pragma once

#include <memory>
#include <vector>

#include "comm/world.h"
#include "model/model.h"
#include "parallel/flat_layout.h"
#include "parallel/replica_sync.h"
#include "parallel/strategies/data.h"

namespace trainctl {

struct ShardedModel {
  ModelConfig config;
  int stage = 0, stages = 1;
  bool sequence_parallel = false;
  std::vector<std::unique_ptr<Module>> modules;  // of this stage, in order
  FlatLayout layout;
  DType compute_dtype = DType::f32;
  Tensor weights;               // flat, compute dtype: what the modules read
  Tensor master;                // flat, f32: what the optimizer moves; shares storage with `weights` when that is f32
  Tensor grads;                 // flat, f32
  std::vector<Span64> counted;  // flat ranges whose gradients this rank counts in the global norm
  ReplicaSync replicas;         // gradients that ranks of the tensor group, or the tied ends, must sum
  std::unique_ptr<GradientReducer> reducer;  // the data group
  World* world = nullptr;
  Context* context = nullptr;

  bool first_stage() const { return stage == 0; }
  bool last_stage() const { return stage == stages - 1; }
  // Rows of a micro-batch of `total` tokens that this rank holds between modules.
  Span64 rows(int64_t total) const;
};

}  // namespace trainctl
