// tests/kernels/norm_test.cpp -- LayerNorm and RMSNorm against f64, forward and backward.
#include <cmath>

#include "fixture.h"
#include "support/catch.h"

using namespace trainctl;
using namespace trainctl::testing;
using namespace trainctl::kernels;

namespace {

struct Statistics {
  Values y, mean, rstd;
};

// y = gain (x - mean) rstd + bias over rows of C; without `centred`, mean is 0 (RMSNorm).
Statistics normalise(const Values& x, const Values& gain, const Values& bias, double eps, bool centred) {
  const size_t cols = gain.size(), rows = x.size() / cols;
  Statistics s{Values(x.size()), Values(rows), Values(rows)};
  for (size_t r = 0; r < rows; ++r) {
    double sum = 0, square = 0;
    for (size_t c = 0; c < cols; ++c) sum += x[r * cols + c];
    s.mean[r] = centred ? sum / static_cast<double>(cols) : 0.0;
    for (size_t c = 0; c < cols; ++c) square += std::pow(x[r * cols + c] - s.mean[r], 2);
    s.rstd[r] = 1.0 / std::sqrt(square / static_cast<double>(cols) + eps);
    for (size_t c = 0; c < cols; ++c)
      s.y[r * cols + c] = gain[c] * (x[r * cols + c] - s.mean[r]) * s.rstd[r] + (centred ? bias[c] : 0.0);
  }
  return s;
}

constexpr int64_t kSizes[][2] = {{1, 1}, {3, 7}, {2, 16}, {5, 33}, {7, 100}, {4, 257}};
constexpr float kEps = 1e-5f;

}  // namespace

TEST_CASE("layer norm equals its formula, also in place and with padded rows", "[kernels][layernorm]") {
  for (const std::string& level : levels())
    for (const DType dtype : kStorage)
      for (const auto& [rows, cols] : kSizes) {
        INFO(level << " " << name(dtype) << " " << rows << " x " << cols);
        Rig rig;
        const auto table = cpu_kernels_at(level);
        const Tensor x = rig.spread(rig.random({rows, cols}, dtype, 1, 3.0), cols + 5);
        const Tensor gain = rig.random({cols}, dtype, 2), bias = rig.random({cols}, dtype, 3);
        const Tensor y = rig.empty({rows, cols}, dtype), mean = rig.empty({rows}), rstd = rig.empty({rows});
        const auto want = normalise(values(x), values(gain), values(bias), static_cast<double>(kEps), true);
        const auto run = [&](const Tensor& from, const Tensor& to) {
          table.get<LayerNormForward>()(
              {.x = from, .gain = gain, .bias = bias, .y = to, .mean = mean, .rstd = rstd, .eps = kEps}, rig.stream());
        };
        run(x, y);
        CHECK(error(y, want.y) < tolerance(dtype));
        CHECK(error(mean, want.mean) < 2e-6);
        if (cols > 1) CHECK(error(rstd, want.rstd) < 2e-6);
        run(x, x);
        CHECK(values(x) == values(y));
      }
}

TEST_CASE("layer norm's statistics survive a large common offset", "[kernels][layernorm]") {
  for (const std::string& level : levels()) {
    INFO(level);
    Rig rig;
    const Tensor x = rig.random({2, 768}, DType::f32, 1);
    Values v = values(x);
    for (double& e : v) e += 1000.0;
    assign(x, v);
    const Tensor gain = rig.constant({768}, DType::f32, 1), bias = rig.constant({768}, DType::f32, 0);
    const Tensor y = rig.empty({2, 768}), mean = rig.empty({2}), rstd = rig.empty({2});
    cpu_kernels_at(level).get<LayerNormForward>()(
        {.x = x, .gain = gain, .bias = bias, .y = y, .mean = mean, .rstd = rstd, .eps = kEps}, rig.stream());
    CHECK(error(y, normalise(values(x), values(gain), values(bias), 1e-5, true).y) < 2e-4);
  }
}

TEST_CASE("layer norm's gradients equal central differences and are accumulated", "[kernels][layernorm]") {
  for (const std::string& level : levels())
    for (const DType dtype : kStorage)
      for (const int64_t cols : {5, 24, 67}) {
        INFO(level << " " << name(dtype) << " cols " << cols);
        Rig rig;
        const int64_t rows = 37;  // three blocks of rows
        const auto table = cpu_kernels_at(level);
        const Tensor x = rig.random({rows, cols}, dtype, 1), gain = rig.random({cols}, dtype, 2);
        const Tensor bias = rig.random({cols}, dtype, 3), dy = rig.random({rows, cols}, dtype, 4);
        const Tensor y = rig.empty({rows, cols}, dtype), mean = rig.empty({rows}), rstd = rig.empty({rows});
        const Tensor dgain = rig.constant({cols}, DType::f32, 10), dbias = rig.constant({cols}, DType::f32, -20);
        table.get<LayerNormForward>()(
            {.x = x, .gain = gain, .bias = bias, .y = y, .mean = mean, .rstd = rstd, .eps = kEps}, rig.stream());
        const Values vx = values(x), vg = values(gain), vb = values(bias), w = values(dy);
        const auto by_x = [&](const Values& at) { return normalise(at, vg, vb, 1e-5, true).y; };
        const auto by_gain = [&](const Values& at) { return normalise(vx, at, vb, 1e-5, true).y; };
        const auto by_bias = [&](const Values& at) { return normalise(vx, vg, at, 1e-5, true).y; };
        const Tensor dx = rig.empty({rows, cols}, dtype);
        const auto run = [&](const Tensor& to) {
          table.get<LayerNormBackward>()(
              {.x = x, .gain = gain, .mean = mean, .rstd = rstd, .dy = dy, .dx = to, .dgain = dgain, .dbias = dbias},
              rig.stream());
        };
        run(dx);
        CHECK(error(dx, numeric_gradient(by_x, vx, w)) < tolerance(dtype, 5e-6));
        Values want_gain = numeric_gradient(by_gain, vg, w), want_bias = numeric_gradient(by_bias, vb, w);
        for (double& v : want_gain) v += 10;
        for (double& v : want_bias) v -= 20;
        CHECK(error(dgain, want_gain) < 3e-6);
        CHECK(error(dbias, want_bias) < 3e-6);
        run(dy);  // dx may alias dy
        CHECK(values(dy) == values(dx));
      }
}

TEST_CASE("RMS norm equals its formula on rows and on strided heads", "[kernels][rmsnorm]") {
  for (const std::string& level : levels())
    for (const DType dtype : kStorage)
      for (const auto& [rows, cols] : kSizes) {
        INFO(level << " " << name(dtype) << " " << rows << " x " << cols);
        Rig rig;
        const auto table = cpu_kernels_at(level);
        // Heads inside a wider projection: [T, 3 heads, cols] at token stride 4 cols + 3.
        const Tensor wide = rig.random({rows, 4 * cols + 3}, dtype, 1);
        const Tensor x = wide.strided({rows, 3, cols}, {4 * cols + 3, cols, 1}, 1);
        const Tensor gain = rig.random({cols}, dtype, 2), rstd = rig.empty({rows, 3});
        const Tensor y = rig.empty({rows, 3, cols}, dtype), rstd_rows = rig.empty({rows * 3});
        const Tensor flat = rig.copy(x).reshape({rows * 3, cols}), y_rows = rig.empty({rows * 3, cols}, dtype);
        const auto want = normalise(values(x), values(gain), {}, static_cast<double>(kEps), false);
        const Values before = values(wide);
        table.get<RmsNormForward>()({.x = x, .gain = gain, .y = y, .rstd = rstd, .eps = kEps}, rig.stream());
        CHECK(error(y, want.y) < tolerance(dtype));
        CHECK(error(rstd, want.rstd) < 2e-6);
        table.get<RmsNormForward>()({.x = flat, .gain = gain, .y = y_rows, .rstd = rstd_rows, .eps = kEps},
                                    rig.stream());
        CHECK(values(y_rows) == values(y));
        CHECK(values(rstd_rows) == values(rstd));
        CHECK(values(wide) == before);
        table.get<RmsNormForward>()({.x = x, .gain = gain, .y = x, .rstd = rstd, .eps = kEps}, rig.stream());
        CHECK(values(x) == values(y));
      }
}

TEST_CASE("RMS norm's gradients equal central differences and are accumulated", "[kernels][rmsnorm]") {
  for (const std::string& level : levels())
    for (const DType dtype : kStorage)
      for (const int64_t cols : {5, 24, 67}) {
        INFO(level << " " << name(dtype) << " cols " << cols);
        Rig rig;
        const int64_t tokens = 11, heads = 3;
        const auto table = cpu_kernels_at(level);
        const Tensor x =
            rig.random({tokens, 4 * cols}, dtype, 1).strided({tokens, heads, cols}, {4 * cols, cols, 1}, 0);
        const Tensor dy =
            rig.random({tokens, 5 * cols}, dtype, 4).strided({tokens, heads, cols}, {5 * cols, cols, 1}, 2);
        const Tensor gain = rig.random({cols}, dtype, 2), rstd = rig.empty({tokens, heads});
        const Tensor y = rig.empty({tokens, heads, cols}, dtype), dx = rig.empty({tokens, heads, cols}, dtype);
        const Tensor dgain = rig.constant({cols}, DType::f32, 10);
        table.get<RmsNormForward>()({.x = x, .gain = gain, .y = y, .rstd = rstd, .eps = kEps}, rig.stream());
        const Values vx = values(x), vg = values(gain), w = values(dy);
        const auto by_x = [&](const Values& at) { return normalise(at, vg, {}, 1e-5, false).y; };
        const auto by_gain = [&](const Values& at) { return normalise(vx, at, {}, 1e-5, false).y; };
        const auto run = [&](const Tensor& to) {
          table.get<RmsNormBackward>()({.x = x, .gain = gain, .rstd = rstd, .dy = dy, .dx = to, .dgain = dgain},
                                       rig.stream());
        };
        run(dx);
        CHECK(error(dx, numeric_gradient(by_x, vx, w)) < tolerance(dtype, 5e-6));
        Values want = numeric_gradient(by_gain, vg, w);
        for (double& v : want) v += 10;
        CHECK(error(dgain, want) < 3e-6);
        run(dy);
        CHECK(values(dy) == values(dx));
      }
}

TEST_CASE("norms of no rows do nothing", "[kernels][layernorm][rmsnorm]") {
  Rig rig;
  const auto table = cpu_kernels();
  const Tensor none = rig.empty({0, 8}), stat = rig.empty({0}), gain = rig.constant({8}, DType::f32, 1);
  const Tensor dgain = rig.constant({8}, DType::f32, 3), dbias = rig.constant({8}, DType::f32, 4);
  table.get<LayerNormForward>()({.x = none, .gain = gain, .bias = gain, .y = none, .mean = stat, .rstd = stat},
                                rig.stream());
  table.get<LayerNormBackward>()(
      {.x = none, .gain = gain, .mean = stat, .rstd = stat, .dy = none, .dx = none, .dgain = dgain, .dbias = dbias},
      rig.stream());
  table.get<RmsNormForward>()({.x = none, .gain = gain, .y = none, .rstd = stat}, rig.stream());
  table.get<RmsNormBackward>()({.x = none, .gain = gain, .rstd = stat, .dy = none, .dx = none, .dgain = dgain},
                               rig.stream());
  CHECK(values(dgain) == Values(8, 3.0));
  CHECK(values(dbias) == Values(8, 4.0));
}
