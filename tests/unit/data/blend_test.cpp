// tests/unit/data/blend_test.cpp -- the blend keeps its proportions at every prefix and is random access.
#include "data/blend.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "support/catch.h"

using namespace trainctl;
using Catch::Contains;

namespace {

// Walks `samples` samples one by one: |c_k - g w_k| < 1 throughout, ordinals count up, counts() agrees at the end.
void check_walk(const std::vector<double>& weights, int64_t samples, double tolerance = 1.0) {
  const Blend blend(weights);
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<int64_t> seen(weights.size(), 0);
  double worst = 0;
  for (int64_t g = 0; g < samples; ++g) {
    const Blend::Place place = blend.locate(g);
    REQUIRE(place.ordinal == seen[static_cast<size_t>(place.source)]);
    ++seen[static_cast<size_t>(place.source)];
    for (size_t k = 0; k < weights.size(); ++k) {
      worst = std::max(worst, std::abs(static_cast<double>(seen[k]) - static_cast<double>(g + 1) * weights[k] / sum));
    }
  }
  CHECK(worst < tolerance);
  CHECK(blend.counts(samples) == seen);
}

}  // namespace

TEST_CASE("every prefix holds each source's share to within one sample", "[data]") {
  check_walk({1.0}, 100);
  check_walk({0.7, 0.3}, 1000);
  check_walk({1, 1, 1}, 1000);
  check_walk({0.9, 0.02, 0.02, 0.02, 0.02, 0.02}, 2000);
  check_walk({0.5, 0.25, 0.125, 0.0625, 0.0625}, 2000);
  check_walk({3, 2, 2, 1, 1, 1, 1}, 2000);
  check_walk({0.001, 0.999}, 5000);
  check_walk({1e-3, 1e3}, 20000);
  check_walk({12.5, 100, 7.25, 0.3}, 20000);
  check_walk(std::vector<double>(50, 0.02), 3000);
}

TEST_CASE("decimal weights are kept exactly, as whole shares", "[data]") {
  CHECK(Blend({0.7, 0.3}).shares() == std::vector<int64_t>{7, 3});
  CHECK(Blend({2.0, 2.0}).shares() == std::vector<int64_t>{1, 1});
  CHECK(Blend({0.1, 0.2, 0.7}).period() == 10);
  // A billion samples in, the counts are still exact.
  CHECK(Blend({0.7, 0.3}).counts(1000000007) == std::vector<int64_t>{700000005, 300000002});
  const auto place = Blend({0.7, 0.3}).locate(int64_t{1} << 60);
  CHECK(place.ordinal > int64_t{1} << 58);
}

TEST_CASE("weights without a short decimal form are kept to one part in 2^20", "[data]") {
  const std::vector<double> weights = {std::sqrt(2.0), std::exp(1.0), 1.0 / 3.0};
  const Blend blend(weights);
  CHECK(blend.period() == int64_t{1} << 20);
  const double sum = weights[0] + weights[1] + weights[2];
  for (size_t k = 0; k < 3; ++k) {
    CHECK(std::abs(static_cast<double>(blend.shares()[k]) - weights[k] / sum * 1048576.0) <= 1.0);
  }
  check_walk(weights, 20000, 1.03);
  CHECK(Blend({1e-12, 1.0 / 3.0}).shares()[0] == 1);
}

TEST_CASE("weights that mean nothing are refused by name", "[data]") {
  CHECK_THROWS_WITH(Blend({}), Contains("0 sources"));
  CHECK_THROWS_WITH(Blend({1.0, 0.0}), Contains("data.train[1].weight is 0"));
  CHECK_THROWS_WITH(Blend({-1.0}), Contains("-1"));
  CHECK_THROWS_WITH(Blend({std::nan("")}), Contains("nan"));
  CHECK_THROWS_WITH(Blend({std::numeric_limits<double>::infinity()}), Contains("inf"));
}
