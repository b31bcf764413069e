// lib/accept/drill_recipe.h -- which `--set` expressions make a drill out of a recipe, and which other layout it can
// have.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "recipe/recipe.h"

namespace trainctl {

struct DrillLayout {
  int64_t ranks = 1;
  std::vector<std::string> overrides;
  std::string text;  // "tensor_parallel 2 x pipeline_parallel 1 x data_parallel 2"
};

struct DrillRecipe {
  std::vector<std::string> overrides;  // the user's, then steps, schedule, no evaluation, and the smaller model
  DrillLayout layout, other;
  bool f32 = true;
};

// `ranks` 0: the fewest that the recipe needs. The schedule is cut to `steps`; scaled_down: two layers per stage at
// most, heads of at most 16 channels, 64 tokens, two micro-batches of one sequence per data rank. The other layout has
// as many ranks where one exists, else half, else twice as many, and differs in as many axes as can be. Throws
// Error{config} for a faulty recipe, Error{plan} when no other layout is legal.
DrillRecipe drill_recipe(const std::filesystem::path& recipe, const std::vector<std::string>& overrides, int64_t ranks,
                         int64_t steps, bool scaled_down);

}  // namespace trainctl
