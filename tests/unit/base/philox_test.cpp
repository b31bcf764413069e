// tests/unit/base/philox_test.cpp -- the generator against the vectors of its authors, and the shape of its normals.
#include "base/philox.h"

#include "support/catch.h"

using namespace trainctl;

TEST_CASE("Philox4x32-10 gives the known answers of Salmon et al.", "[base][philox]") {
  using Words = std::array<uint32_t, 4>;
  CHECK(philox(0, 0, 0) == Words{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u});
  CHECK(philox(~0ull, ~0ull, ~0ull) == Words{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu});
  CHECK(philox(0x299f31d0a4093822ull, 0x0370734413198a2eull, 0x85a308d3243f6a88ull) ==
        Words{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u});
}

TEST_CASE("a uniform number is never 0 and never 1", "[base][philox]") {
  CHECK(unit_interval(0) > 0);
  CHECK(unit_interval(~0u) < 1);
}

TEST_CASE("normal numbers have mean 0, variance 1, kurtosis 3 and are independent of their neighbours",
          "[base][philox]") {
  const uint64_t n = 200000;
  double m1 = 0, m2 = 0, m4 = 0, neighbour = 0, last = 0;
  for (uint64_t i = 0; i < n; ++i) {
    const double x = philox_normal(1234, stream_of("layers.0.attention.q"), i);
    m1 += x;
    m2 += x * x;
    m4 += x * x * x * x;
    neighbour += x * last;
    last = x;
  }
  const auto count = static_cast<double>(n);  // tolerances: five standard errors
  CHECK(std::abs(m1 / count) < 5 / std::sqrt(count));
  CHECK(std::abs(m2 / count - 1) < 5 * std::sqrt(2 / count));
  CHECK(std::abs(m4 / count - 3) < 5 * std::sqrt(96 / count));
  CHECK(std::abs(neighbour / count) < 5 / std::sqrt(count));
}

TEST_CASE("streams of different names, seeds and indices differ", "[base][philox]") {
  CHECK(stream_of("a") != stream_of("b"));
  CHECK(philox_normal(1, stream_of("a"), 0) != philox_normal(2, stream_of("a"), 0));
  CHECK(philox_normal(1, stream_of("a"), 0) != philox_normal(1, stream_of("b"), 0));
  CHECK(philox_normal(1, stream_of("a"), 0) != philox_normal(1, stream_of("a"), 1));
}
