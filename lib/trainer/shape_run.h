// lib/trainer/shape_run.h -- the dry run: the real engine without storage, once per class of ranks that differ in
// shapes.
#pragma once

#include <vector>

#include "recipe/recipe.h"
#include "trainer/counters.h"

namespace trainctl {

struct ShapeRunResult {
  RunCounters counters;
  std::vector<int64_t> stage_parameters;  // logical parameters of each pipeline stage; tied ones on both ends
  int64_t parameters = 0;                 // of the model; tied ones once
  int64_t host_staging_bytes = 0;         // the most one rank stages of a checkpoint outside its own memory; cpu: 0
  int64_t engine_runs = 0;                // classes that were run
};

// `recipe` is resolved. Ranks of one class hold the same shapes and own the same part of the state; their traffic is
// costed for each rank's own place in its groups. Small worlds run every rank.
ShapeRunResult shape_run(const Recipe& recipe, int64_t memory_limit_bytes_per_rank);

}  // namespace trainctl
