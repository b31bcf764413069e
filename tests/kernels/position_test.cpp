// tests/kernels/position_test.cpp -- rotary embedding, and dropout as a function of the global position.
#include <cmath>

#include "base/philox.h"
#include "fixture.h"
#include "support/catch.h"

using namespace trainctl;
using namespace trainctl::testing;
using namespace trainctl::kernels;

namespace {

struct Angles {
  Tensor cosine, sine;
};
Angles angles(Rig& rig, int64_t positions, int64_t half) {
  Angles a{rig.empty({positions, half}), rig.empty({positions, half})};
  Values c, s;
  for (int64_t p = 0; p < positions; ++p)
    for (int64_t j = 0; j < half; ++j) {
      const double angle =
          static_cast<double>(p) * std::pow(10000.0, -static_cast<double>(j) / static_cast<double>(half));
      c.push_back(std::cos(angle));
      s.push_back(std::sin(angle));
    }
  assign(a.cosine, c);
  assign(a.sine, s);
  return a;
}

bool kept(const Dropout& d, int64_t row, int64_t column) {
  const int64_t token = d.token_begin + (row / d.run) * d.jump + row % d.run;
  const uint64_t e = static_cast<uint64_t>(token * d.x.dim(1) + column);
  return static_cast<double>(philox(d.key, d.site, e / 4)[e % 4]) >= std::round(d.probability * 4294967296.0);
}

}  // namespace

TEST_CASE("rotary embedding rotates each pair by its angle, and back", "[kernels][rope]") {
  for (const std::string& level : levels())
    for (const DType dtype : kStorage)
      for (const int64_t half : {1, 4, 8, 19, 32}) {
        INFO(level << " " << name(dtype) << " D/2 " << half);
        Rig rig;
        const auto rope = cpu_kernels_at(level).get<Rope>();
        const int64_t dim = 2 * half, heads = 3, width = 4 * dim + 1;
        const Tensor wide = rig.random({5, width}, dtype, 1);
        const Tensor x = wide.strided({5, heads, dim}, {width, dim, 1}, 1);
        const Tensor positions = rig.integers({0, 3, 3, 9, 1});
        const Angles a = angles(rig, 10, half);
        const Values before = values(x), whole = values(wide), c = values(a.cosine), s = values(a.sine);
        const Values p = values(positions);
        Values want = before;
        for (size_t t = 0; t < 5; ++t)
          for (size_t h = 0; h < 3; ++h)
            for (size_t j = 0; j < static_cast<size_t>(half); ++j) {
              const size_t low = (t * 3 + h) * static_cast<size_t>(dim) + j, high = low + static_cast<size_t>(half);
              const size_t at = static_cast<size_t>(p[t]) * static_cast<size_t>(half) + j;
              want[low] = before[low] * c[at] - before[high] * s[at];
              want[high] = before[high] * c[at] + before[low] * s[at];
            }
        rope({.x = x, .positions = positions, .cosine = a.cosine, .sine = a.sine}, rig.stream());
        CHECK(error(x, want) < tolerance(dtype, 5e-7));
        rope({.x = x, .positions = positions, .cosine = a.cosine, .sine = a.sine, .inverse = true}, rig.stream());
        CHECK(error(x, before) < tolerance(dtype, 1e-6));
        assign(x, before);
        CHECK(values(wide) == whole);  // nothing outside the heads was written
      }
}

TEST_CASE("a position outside the angle table is refused before anything is written", "[kernels][rope]") {
  Rig rig;
  const Tensor x = rig.random({2, 1, 4}, DType::f32, 1);
  const Values before = values(x);
  const Angles a = angles(rig, 3, 2);
  for (const int32_t bad : {3, -1}) {
    CHECK_THROWS_AS(
        cpu_kernels().get<Rope>()({.x = x, .positions = rig.integers({0, bad}), .cosine = a.cosine, .sine = a.sine},
                                  rig.stream()),
        Error);
    CHECK(values(x) == before);
  }
}

TEST_CASE("dropout keeps exactly the elements whose Philox word says so", "[kernels][dropout]") {
  for (const std::string& level : levels())
    for (const DType dtype : kStorage)
      for (const int64_t channels : {1, 3, 16, 37, 300}) {
        INFO(level << " " << name(dtype) << " channels " << channels);
        Rig rig;
        const int64_t rows = 6;
        const Tensor x = rig.random({rows, channels}, dtype, 1), y = rig.empty({rows, channels}, dtype);
        const Dropout d{.x = x,
                        .y = y,
                        .probability = 0.3,
                        .key = 0x123456789abcdefull,
                        .site = 0xfedcba9876543210ull,
                        .token_begin = (int64_t{1} << 33) + 5,
                        .run = 2,
                        .jump = 7};
        cpu_kernels_at(level).get<Dropout>()(d, rig.stream());
        const Tensor want = rig.empty({rows, channels}, dtype);
        Values v = values(x);
        const float scale = static_cast<float>(1 / 0.7);
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t c = 0; c < channels; ++c) {
            double& e = v[static_cast<size_t>(r * channels + c)];
            e = kept(d, r, c) ? static_cast<double>(static_cast<float>(e) * scale) : 0.0;
          }
        assign(want, v);
        CHECK(values(y) == values(want));
        Dropout in_place = d;
        in_place.y = x;
        cpu_kernels_at(level).get<Dropout>()(in_place, rig.stream());
        CHECK(values(x) == values(want));
      }
}

TEST_CASE("dropout does not depend on how rows are cut among ranks", "[kernels][dropout]") {
  Rig rig;
  const auto dropout = cpu_kernels().get<Dropout>();
  const int64_t rows = 24, channels = 50;
  const Tensor x = rig.random({rows, channels}, DType::f32, 1), whole = rig.empty({rows, channels});
  dropout({.x = x, .y = whole, .probability = 0.5, .key = 1, .site = 2, .token_begin = 100, .run = rows, .jump = 0},
          rig.stream());
  // Two sequences of 12 tokens; a rank holds 4 consecutive tokens of each.
  for (int64_t begin = 0; begin < 12; begin += 4) {
    const Tensor mine = rig.empty({8, channels}), got = rig.empty({8, channels}), want = rig.empty({8, channels});
    for (int64_t i = 0; i < 2; ++i) {
      assign(mine.slice(0, 4 * i, 4 * i + 4), values(x.slice(0, 12 * i + begin, 12 * i + begin + 4)));
      assign(want.slice(0, 4 * i, 4 * i + 4), values(whole.slice(0, 12 * i + begin, 12 * i + begin + 4)));
    }
    dropout({.x = mine,
             .y = got,
             .probability = 0.5,
             .key = 1,
             .site = 2,
             .token_begin = 100 + begin,
             .run = 4,
             .jump = 12},
            rig.stream());
    CHECK(same_bits(got, want));
  }
}

TEST_CASE("dropout keeps the asked share, all at 0 and none at 1", "[kernels][dropout]") {
  for (const std::string& level : levels()) {
    INFO(level);
    Rig rig;
    const auto dropout = cpu_kernels_at(level).get<Dropout>();
    const Tensor x = rig.constant({100, 1000}, DType::f32, 1), y = rig.empty({100, 1000});
    for (const double p : {0.0, 0.1, 1.0}) {
      dropout({.x = x, .y = y, .probability = p, .key = 7, .site = 8}, rig.stream());
      double zeros = 0;
      for (const double v : values(y)) zeros += v == 0 ? 1 : 0;
      CHECK(std::abs(zeros / 1e5 - p) < 4 * std::sqrt(p * (1 - p) / 1e5) + 1e-12);
    }
  }
}
