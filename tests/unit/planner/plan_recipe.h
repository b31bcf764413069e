// tests/unit/planner/plan_recipe.h -- a small recipe for planner tests; overrides as in --set.
#pragma once

#include <string>
#include <vector>

#include "recipe/recipe.h"

namespace trainctl::testing {

inline LoadedRecipe plan_recipe(const std::vector<std::string>& overrides = {}) {
  return load_recipe_text(R"({"name": "small",
    "model": {"family": "llama", "layers": 8, "d_model": 64, "heads": 4, "d_ff": 128, "vocab": 257},
    "data": {"train": [{"path": "absent/tokens"}], "sequence_tokens": 64},
    "parallelism": {"data_parallel": "fill"},
    "optimizer": {"lr": 0.001, "weight_decay": 0.1, "clip_grad_norm": 1.0},
    "runtime": {"steps": 3, "micro_batch_size": 1, "micro_batches": 8}})",
                          "small.json", overrides);
}

}  // namespace trainctl::testing
