// lib/recipe/rules.h -- the rules between recipe fields, each group in its own file.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "recipe/recipe.h"

namespace trainctl {

// Collects faults. A rule looks at `usable` first: a field that could not be read is reported once, at its own key.
struct RuleBook {
  const Recipe& recipe;
  const ConfigSource& source;
  std::vector<Fault> faults;

  bool usable(std::initializer_list<std::string_view> paths) const {
    return std::all_of(paths.begin(), paths.end(), [this](std::string_view p) { return source.usable(p); });
  }
  void fault(std::string path, std::string message) {
    faults.push_back(source.fault(std::move(path), std::move(message)));
  }
};

void check_model(RuleBook& book);        // heads, widths, family options, rope
void check_parallelism(RuleBook& book);  // degrees against the model, stages, order, what this build lacks
void check_training(RuleBook& book);     // name, data, optimizer, runtime without the batch
void check_batch(RuleBook& book);        // the batch equation as far as it is known without a world size

// The divisors of n (> 0) nearest to `wanted`, at most one below or equal and one above: "4", "2 or 4".
std::string nearest_divisors(int64_t n, int64_t wanted);
// Multiples of n (> 0) around `wanted`, each >= n: "512", "512 or 576".
std::string nearest_multiples(int64_t n, int64_t wanted);

}  // namespace trainctl
