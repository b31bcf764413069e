// lib/recipe/provenance.h -- where every value of a resolved recipe came from.
#pragma once

#include <string>
#include <vector>

#include "recipe/recipe.h"

namespace trainctl {

struct KeyOrigin {
  std::string path;   // "optimizer.lr"
  std::string value;  // compact JSON
  // "recipe.json:12:20", "--set optimizer.lr=1 instead of 0.001 at line 4, column 12", "default", or "derived" for a
  // value that resolve() computed.
  std::string origin;
};

// One entry per scalar or array of scalars of `resolved`, in the order of the recipe.
std::vector<KeyOrigin> key_origins(const LoadedRecipe& loaded, const Recipe& resolved);

}  // namespace trainctl
