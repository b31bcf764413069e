// lib/trainer/recorded_recipe.h -- the recipe that a checkpoint's manifest records, against the one of this run.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/checkpointer.h"
#include "recipe/recipe.h"

namespace trainctl {

// Shapes alone do not tell whether weights belong to a model: 4 heads of 16 and 8 heads of 8 have the same ones. A
// checkpoint that records no recipe (of another program) differs in nothing.
struct RecordedRecipe {
  // Of what makes these weights the weights of this model (all of the model section but what `told` lists and what
  // only training sees): "model.heads is 8 here and 4 there", in order, joined by commas; "" when there is nothing.
  std::string misfit;
  std::string remedy;  // "model.heads to 4": what to restore
  // What changes the function that the weights compute and may be meant, as a longer context is: rope and norm_eps.
  std::vector<std::string> told;
};

// Both sections resolved. Of a training state, and of imported weights, which record a model alone.
RecordedRecipe compare_recorded_model(const Manifest& manifest, const ModelConfig& here);

// For CheckpointerOptions::judge: the model as above; precision and optimizer kind are named, and decide nothing: their
// tensors do.
RecipeVerdict judge_recorded_recipe(const Manifest& manifest, const Recipe& here);

}  // namespace trainctl
