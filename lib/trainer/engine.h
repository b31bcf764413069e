// lib/trainer/engine.h -- assemble(): the five seams called in order, and what they give held together.
#pragma once

#include <memory>

#include "checkpoint/checkpointer.h"
#include "comm/world.h"
#include "optim/optimizer.h"
#include "parallel/apply_parallelism.h"
#include "recipe/recipe.h"
#include "runtime/runtime.h"

namespace trainctl {

struct EngineInputs {
  std::unique_ptr<Device> device;
  kernels::KernelTable kernels;
  std::unique_ptr<Collectives> collectives;
  BatchSource* source = nullptr;  // null on a shape_only device
  int64_t memory_limit_bytes = 0;
  std::function<void(const char*, int)> on_place;  // besides the flight recorder
};

// One rank. Members are in the order of construction: later ones use earlier ones.
struct Engine {
  std::unique_ptr<Device> device;
  std::unique_ptr<Arena> arena;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Context> context;
  std::unique_ptr<World> world;
  ShardedModel model;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<Runtime> runtime;

  // Everything a training checkpoint holds of this rank, under names no layout changes: compute weights, the f32 master
  // when that is another tensor, moments.
  StateCatalog catalog() const;
  // Every rank: true when any rank asks to stop.
  bool any_rank_asks(bool here);
  int64_t sum_over_ranks(int64_t value);
  std::string broadcast_text(const std::string& text);  // of rank 0, to every rank

 private:
  int64_t reduced(int64_t value, Reduce op);
  friend std::unique_ptr<Engine> assemble(const Recipe& recipe, EngineInputs inputs);
  Tensor flag_;  // i64 [1]
};

Mesh mesh_of(const ParallelismConfig& parallelism);  // resolved

// `recipe` is resolved; the collectives' world has its size. The engine does not move once made.
std::unique_ptr<Engine> assemble(const Recipe& recipe, EngineInputs inputs);

}  // namespace trainctl
