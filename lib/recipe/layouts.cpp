// lib/recipe/layouts.cpp -- the product of degrees, and legal layouts near a wrong one.
#include "recipe/layouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "recipe/batch.h"

namespace trainctl {
namespace {

int64_t product(int64_t a, int64_t b) {
  int64_t r = 0;
  return __builtin_mul_overflow(a, b, &r) ? INT64_MAX : r;
}

std::vector<int64_t> divisors(int64_t n) {
  std::vector<int64_t> low, high;
  for (int64_t d = 1; d * d <= n; ++d)
    if (n % d == 0) {
      low.push_back(d);
      if (d * d != n) high.push_back(n / d);
    }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

// Legal layouts of `world` ranks, nearest first: every factor of two on an axis is one step; a step of data_parallel
// weighs less, since it is what users give up first.
std::string nearest_layouts(const Recipe& recipe, int64_t world) {
  const ParallelismConfig& p = recipe.parallelism;
  const ModelConfig& m = recipe.model;
  struct Layout {
    int64_t tensor, pipeline, data;
    double distance;
  };
  const auto steps = [](int64_t a, int64_t b) {
    return std::abs(std::log2(static_cast<double>(a)) - std::log2(static_cast<double>(b)));
  };
  std::vector<Layout> legal;
  for (const int64_t tensor : divisors(world)) {
    if (tensor > m.heads || (m.d_ff && tensor > *m.d_ff) || (m.vocab.value && tensor > *m.vocab.value)) continue;
    if (tensor == 1 && p.sequence_parallel) continue;
    for (const int64_t pipeline : divisors(world / tensor)) {
      if (pipeline > m.layers) continue;
      const int64_t data = world / tensor / pipeline;
      if (!solve_batch(recipe.runtime, data).fault.empty()) continue;
      const double distance = steps(tensor, p.tensor_parallel) + steps(pipeline, p.pipeline_parallel) +
                              0.5 * steps(data, p.data_parallel.value.value_or(data));
      legal.push_back({tensor, pipeline, data, distance});
    }
  }
  std::stable_sort(legal.begin(), legal.end(),
                   [](const Layout& a, const Layout& b) { return a.distance < b.distance; });
  std::string out;
  for (size_t i = 0; i < std::min<size_t>(legal.size(), 3); ++i)
    out += fmt::format("{}tensor_parallel {} pipeline_parallel {} data_parallel {}", i == 0 ? "" : "; ",
                       legal[i].tensor, legal[i].pipeline, legal[i].data);
  return out.empty() ? "none, with this model and batch" : out;
}

}  // namespace

int64_t smallest_world(const Recipe& recipe) {
  const ParallelismConfig& p = recipe.parallelism;
  return product(product(p.tensor_parallel, p.context_parallel),
                 product(p.pipeline_parallel, p.data_parallel.value.value_or(1)));
}

DataParallel fit_world(const Recipe& recipe, int64_t world_size) {
  const ParallelismConfig& p = recipe.parallelism;
  const int64_t others = product(product(p.tensor_parallel, p.context_parallel), p.pipeline_parallel);
  const std::optional<int64_t> given = p.data_parallel.value;
  const bool fits = given ? smallest_world(recipe) == world_size : world_size >= others && world_size % others == 0;
  if (fits) return {given ? *given : world_size / others, ""};

  const std::string degrees = fmt::format("tensor_parallel {} x context_parallel {} x pipeline_parallel {}",
                                          p.tensor_parallel, p.context_parallel, p.pipeline_parallel);
  const std::string wrong =
      given ? fmt::format("{} x data_parallel {} = {}, but the world has {}", degrees, *given,
                          counted(smallest_world(recipe), "rank"), world_size)
            : fmt::format(
                  "{} = {} does not divide the world of {}, so data_parallel \"fill\" has no whole value "
                  "({} / {} = {:.4g})",
                  degrees, others, counted(world_size, "rank"), world_size, others,
                  static_cast<double>(world_size) / static_cast<double>(others));
  // A wrong number of ranks is as likely as a wrong degree.
  std::string ranks;
  if (given) {
    ranks = counted(smallest_world(recipe), "rank");
  } else {
    const int64_t below = world_size / others * others;
    ranks = below == 0 ? counted(others, "rank") : fmt::format("{} or {} ranks", below, below + others);
  }
  return {0, fmt::format(
                 "{} (expert_parallel {} divides the data ranks and adds none); the nearest legal layouts of {}: "
                 "{}; or start {}",
                 wrong, p.expert_parallel, counted(world_size, "rank"), nearest_layouts(recipe, world_size), ranks)};
}

}  // namespace trainctl
