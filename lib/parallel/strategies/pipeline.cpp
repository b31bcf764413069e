// lib/parallel/strategies/pipeline.cpp -- cutting the list of modules.
#include "parallel/strategies/pipeline.h"

#include <numeric>

#include "base/error.h"

namespace trainctl {

std::vector<std::unique_ptr<Module>> take_stage(Model&& model, const std::vector<int64_t>& layers_per_stage,
                                                int stage) {
  const auto stages = static_cast<int>(layers_per_stage.size());
  const int64_t blocks = static_cast<int64_t>(model.modules.size()) - 2;
  ensure(stage >= 0 && stage < stages, "a pipeline stage that does not exist");
  ensure(std::accumulate(layers_per_stage.begin(), layers_per_stage.end(), int64_t{0}) == blocks,
         "the stages' layers do not add up to the model's");
  int64_t first = 1;
  for (int s = 0; s < stage; ++s) first += layers_per_stage[static_cast<size_t>(s)];
  int64_t last = first + layers_per_stage[static_cast<size_t>(stage)];
  if (stage == 0) first = 0;
  if (stage == stages - 1) last = blocks + 2;
  std::vector<std::unique_ptr<Module>> kept;
  for (int64_t m = first; m < last; ++m) kept.push_back(std::move(model.modules[static_cast<size_t>(m)]));
  return kept;
}

}  // namespace trainctl
