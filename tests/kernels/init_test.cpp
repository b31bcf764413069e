// tests/kernels/init_test.cpp -- initial values are a function of the global index.
#include <cmath>

#include "base/philox.h"
#include "fixture.h"
#include "support/catch.h"

using namespace trainctl;
using namespace trainctl::testing;
using namespace trainctl::kernels;

TEST_CASE("initial values are Philox normals of the global index", "[kernels][init]") {
  Rig rig;
  const Tensor x = rig.empty({5, 7});
  cpu_kernels().get<InitNormal>()(
      {.x = x, .key = 42, .stream = stream_of("w"), .std = 0.02, .row_begin = 3, .col_begin = 2, .global_cols = 20},
      rig.stream());
  const Values v = values(x);
  for (int64_t r = 0; r < 5; ++r)
    for (int64_t c = 0; c < 7; ++c) {
      const double want = 0.02 * philox_normal(42, stream_of("w"), static_cast<uint64_t>((3 + r) * 20 + 2 + c));
      CHECK(v[static_cast<size_t>(r * 7 + c)] == static_cast<double>(static_cast<float>(want)));
    }
}

TEST_CASE("every cut of a tensor starts from the bits of the whole", "[kernels][init]") {
  Rig rig;
  const auto init = cpu_kernels().get<InitNormal>();
  const Tensor whole = rig.empty({12, 10});
  init({.x = whole, .key = 1, .stream = 2, .std = 1.0, .global_cols = 10}, rig.stream());
  for (const int64_t rows : {1, 3, 12})
    for (const int64_t cols : {1, 5, 10})
      for (int64_t r = 0; r < 12; r += rows)
        for (int64_t c = 0; c < 10; c += cols) {
          const Tensor box = rig.empty({rows, cols});
          init({.x = box, .key = 1, .stream = 2, .std = 1.0, .row_begin = r, .col_begin = c, .global_cols = 10},
               rig.stream());
          CHECK(values(box) == values(whole.slice(0, r, r + rows).slice(1, c, c + cols)));
        }
}

TEST_CASE("initial values have the asked mean and deviation, and a constant is constant", "[kernels][init]") {
  Rig rig;
  const Tensor x = rig.empty({100, 400});
  const auto table = cpu_kernels();
  table.get<InitNormal>()({.x = x, .key = 9, .stream = 1, .std = 0.5, .global_cols = 400}, rig.stream());
  double sum = 0, square = 0;
  for (const double v : values(x)) sum += v, square += v * v;
  CHECK(std::abs(sum / 40000) < 0.5 * 4 / 200);
  CHECK(std::abs(square / 40000 - 0.25) < 0.01);
  table.get<InitConstant>()({.x = x, .value = 1.5f}, rig.stream());
  CHECK(values(x) == Values(40000, 1.5));
}
