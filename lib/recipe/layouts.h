// lib/recipe/layouts.h -- degrees against the number of ranks.
#pragma once

#include <cstdint>
#include <string>

#include "recipe/recipe.h"

namespace trainctl {

struct DataParallel {
  int64_t degree = 0;
  std::string
      fault;  // not empty: the degrees do not fill `world_size`; prints every degree and the nearest legal layouts
};

// data_parallel as given, or world_size / (tensor x context x pipeline). world_size >= 1.
DataParallel fit_world(const Recipe& recipe, int64_t world_size);

}  // namespace trainctl
