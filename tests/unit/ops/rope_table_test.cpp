// tests/unit/ops/rope_table_test.cpp -- rotary phases keep apart what narrow types would merge.
#include "ops/rope_table.h"

#include <cmath>
#include <vector>

#include "support/catch.h"

namespace trainctl {

TEST_CASE("cosines and sines are the f64 values rounded once, for long positions too", "[ops][rope]") {
  const int64_t positions = 4096, dim = 64;
  std::vector<float> cosine(positions * dim / 2), sine(cosine.size());
  fill_rope_table(positions, dim, {}, cosine.data(), sine.data());
  double worst = 0;
  for (int64_t p = 0; p < positions; ++p)
    for (int64_t j = 0; j < dim / 2; ++j) {
      const double phase =
          static_cast<double>(p) * std::pow(10000.0, -2.0 * static_cast<double>(j) / static_cast<double>(dim));
      const auto at = static_cast<size_t>(p * dim / 2 + j);
      worst = std::max({worst, std::abs(static_cast<double>(cosine[at]) - std::cos(phase)),
                        std::abs(static_cast<double>(sine[at]) - std::sin(phase))});
    }
  CHECK(worst < 6e-8);
  // Phases held in bf16 could not tell position 256 from 257.
  for (const int64_t p : {256, 1024, 4000}) {
    const auto row = static_cast<size_t>(p * dim / 2), next = row + dim / 2;
    CHECK(std::abs(static_cast<double>(sine[row]) - static_cast<double>(sine[next])) > 0.01);
  }
}

TEST_CASE("scalings of 1 change nothing, and each kind stretches what it should", "[ops][rope]") {
  const std::vector<double> plain = rope_frequencies(64, {});
  CHECK(rope_frequencies(64, {.kind = "linear", .factor = 1.0}) == plain);
  const auto linear = rope_frequencies(64, {.kind = "linear", .factor = 4.0});
  for (size_t j = 0; j < plain.size(); ++j) CHECK(linear[j] == Approx(plain[j] / 4));
  const auto llama3 = rope_frequencies(64, {.kind = "llama3", .factor = 8.0, .original_positions = 8192});
  CHECK(llama3.front() == Approx(plain.front()));
  CHECK(llama3.back() == Approx(plain.back() / 8));
  const auto yarn = rope_frequencies(64, {.kind = "yarn", .factor = 4.0, .original_positions = 2048});
  CHECK(yarn.front() == Approx(plain.front()));
  CHECK(yarn.back() == Approx(plain.back() / 4));
  for (size_t j = 0; j < plain.size(); ++j) {
    CHECK(llama3[j] <= plain[j] * (1 + 1e-12));
    CHECK(yarn[j] >= plain[j] / 4 * (1 - 1e-12));
  }
  CHECK(rope_attention_factor({.kind = "yarn", .factor = 4.0}) == Approx(0.1 * std::log(4.0) + 1));
  CHECK(rope_attention_factor({.kind = "llama3", .factor = 4.0}) == 1.0);
}

}  // namespace trainctl
