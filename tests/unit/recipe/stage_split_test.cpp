// tests/unit/recipe/stage_split_test.cpp -- stage splits against exhaustive search and hand counts.
#include "recipe/stage_split.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/error.h"
#include "support/catch.h"

using namespace trainctl;

namespace {

// Stage costs, largest first: what balance_stages minimises, in lexicographic order.
std::vector<double> sorted_costs(const StageCosts& c, const std::vector<int64_t>& split) {
  std::vector<double> costs;
  for (size_t s = 0; s < split.size(); ++s)
    costs.push_back(static_cast<double>(split[s]) * c.layer + (s == 0 ? c.embedding : 0) +
                    (s + 1 == split.size() ? c.head : 0));
  std::sort(costs.rbegin(), costs.rend());
  return costs;
}

std::vector<double> best_of_all(const StageCosts& c, int64_t layers, int64_t stages) {
  std::vector<double> best;
  std::vector<int64_t> split;
  const std::function<void(int64_t)> extend = [&](int64_t left) {
    if (static_cast<int64_t>(split.size()) + 1 == stages) {
      split.push_back(left);
      const std::vector<double> costs = sorted_costs(c, split);
      if (best.empty() || costs < best) best = costs;
      split.pop_back();
      return;
    }
    for (int64_t n = 1; n <= left - (stages - static_cast<int64_t>(split.size()) - 1); ++n) {
      split.push_back(n);
      extend(left - n);
      split.pop_back();
    }
  };
  extend(layers);
  return best;
}

}  // namespace

TEST_CASE("no split has a smaller largest stage than the balanced one", "[recipe][stages]") {
  // Costs are multiples of 1/4, so that equal sums compare equal.
  for (int64_t layers = 1; layers <= 11; ++layers)
    for (int64_t stages = 1; stages <= std::min<int64_t>(layers, 5); ++stages)
      for (const double head : {0.0, 0.5, 1.0, 2.25, 7.0})
        for (const double embedding : {0.0, 0.75, 3.0}) {
          const StageCosts costs{.layer = 1, .embedding = embedding, .head = head};
          const std::vector<int64_t> split = balance_stages(costs, layers, stages);
          INFO(layers << " layers, " << stages << " stages, head " << head << ", embedding " << embedding);
          CHECK(static_cast<int64_t>(split.size()) == stages);
          CHECK(std::accumulate(split.begin(), split.end(), int64_t{0}) == layers);
          CHECK(*std::min_element(split.begin(), split.end()) >= 1);
          CHECK(sorted_costs(costs, split) == best_of_all(costs, layers, stages));
        }
}

TEST_CASE("between equals the later stages are lighter", "[recipe][stages]") {
  CHECK(balance_stages({}, 7, 2) == std::vector<int64_t>{4, 3});
  CHECK(balance_stages({}, 9, 4) == std::vector<int64_t>{3, 2, 2, 2});
  CHECK(balance_stages({.layer = 1, .embedding = 0, .head = 1}, 7, 4) == std::vector<int64_t>{2, 2, 2, 1});
}

TEST_CASE("fewer layers than stages is our own bug here", "[recipe][stages]") {
  CHECK_THROWS_AS(balance_stages({}, 3, 4), Error);
  CHECK_THROWS_AS(balance_stages({}, 3, 0), Error);
}

TEST_CASE("costs equal a hand count of multiply-adds", "[recipe][stages]") {
  ModelConfig m;
  m.family = "llama";
  m.d_model = 64;
  m.heads = 4;
  m.kv_heads = 2;
  m.head_dim = 16;
  m.d_ff = 128;
  m.vocab.value = 257;
  // q 64x64, k and v 64x32, o 64x64, three of 64x128; attention: 32/2 keys on average, scores and values, 64 channels.
  const double multiply_adds = 4096 + 2 * 2048 + 4096 + 3 * 8192 + 2 * 16 * 64;
  CHECK(stage_costs(m, 32).layer == 3 * 2 * multiply_adds);
  CHECK(stage_costs(m, 32).head == 3 * 2 * 64 * 257);
  m.family = "gpt2";
  CHECK(stage_costs(m, 32).layer == 3 * 2 * (multiply_adds - 8192));
}
