// tests/unit/data/permutation_test.cpp -- the keyed shuffle is a bijection, changes with its key, and looks shuffled.
#include "data/permutation.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "support/catch.h"

using namespace trainctl;

namespace {
std::vector<int64_t> order(int64_t n, uint64_t seed, uint64_t stream) {
  const Permutation p(n, seed, stream);
  std::vector<int64_t> values(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) values[static_cast<size_t>(i)] = p(i);
  return values;
}
}  // namespace

TEST_CASE("every size gives each value exactly once", "[data]") {
  for (int64_t n = 0; n <= 300; ++n) {
    std::vector<int64_t> values = order(n, 9, static_cast<uint64_t>(n)), all(static_cast<size_t>(n));
    std::iota(all.begin(), all.end(), 0);
    std::sort(values.begin(), values.end());
    REQUIRE(values == all);
  }
  for (const int64_t n : {int64_t{65535}, int64_t{65536}, int64_t{65537}, int64_t{100003}}) {
    std::vector<int64_t> values = order(n, 1, 2), all(static_cast<size_t>(n));
    std::iota(all.begin(), all.end(), 0);
    std::sort(values.begin(), values.end());
    REQUIRE(values == all);
  }
}

TEST_CASE("positions beyond 2^32 are permuted within the range", "[data]") {
  const int64_t n = (int64_t{1} << 40) + 7;
  const Permutation p(n, 3, 4);
  std::vector<int64_t> seen;
  for (int64_t i = 0; i < 1000; ++i) {
    seen.push_back(p(n - 1 - i * (n / 1000)));
    CHECK((seen.back() >= 0 && seen.back() < n));
  }
  std::sort(seen.begin(), seen.end());
  CHECK(std::adjacent_find(seen.begin(), seen.end()) == seen.end());
}

TEST_CASE("seed and stream each give another order", "[data]") {
  const auto a = order(1000, 1, 1);
  CHECK(a == order(1000, 1, 1));
  CHECK(a != order(1000, 2, 1));
  CHECK(a != order(1000, 1, 2));
}

TEST_CASE("places and neighbours are unrelated, as after a fair shuffle", "[data]") {
  // Over many keys each (place, value) pair of a small range comes up evenly: chi-squared with 81 degrees of freedom.
  constexpr int kSize = 10, kKeys = 20000;
  std::vector<int> count(kSize * kSize, 0);
  for (uint64_t key = 0; key < kKeys; ++key) {
    const auto values = order(kSize, key, 5);
    for (int i = 0; i < kSize; ++i) ++count[static_cast<size_t>(i * kSize + values[static_cast<size_t>(i)])];
  }
  double chi = 0;
  const double expected = double{kKeys} / kSize;
  for (const int c : count) chi += (c - expected) * (c - expected) / expected;
  CHECK(chi < 140);  // mean 81 (the last row and column follow), standard deviation 13
  // In one large order, correlation of value with place and with the next value is noise of size 1/sqrt(n).
  const auto values = order(50000, 11, 12);
  double place = 0, next = 0, square = 0;
  const double mean = 24999.5;
  for (size_t i = 0; i + 1 < values.size(); ++i) {
    const double x = static_cast<double>(values[i]) - mean;
    place += x * (static_cast<double>(i) - mean);
    next += x * (static_cast<double>(values[i + 1]) - mean);
    square += x * x;
  }
  CHECK(std::abs(place / square) < 0.02);
  CHECK(std::abs(next / square) < 0.02);
}
