// tests/kernels/pointwise_test.cpp -- GELU, SwiGLU, add and cast against f64.
#include <bit>
#include <cmath>

#include "fixture.h"
#include "support/catch.h"

using namespace trainctl;
using namespace trainctl::testing;
using namespace trainctl::kernels;

namespace {

double gelu(double x, bool tanh_form) {
  if (!tanh_form) return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
  const double pi = 3.14159265358979323846;
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / pi) * (x + 0.044715 * x * x * x)));
}
double silu(double x) { return x / (1 + std::exp(-x)); }

Values map(const Values& x, const std::function<double(double)>& f) {
  Values y;
  for (const double v : x) y.push_back(f(v));
  return y;
}
double slope(const std::function<double(double)>& f, double x) { return (f(x + 1e-5) - f(x - 1e-5)) / 2e-5; }

constexpr int64_t kLengths[] = {0, 1, 3, 4, 5, 8, 15, 16, 17, 31, 33, 100, 1000};

}  // namespace

TEST_CASE("GELU and its gradient equal f64 in both forms, also in place", "[kernels][gelu]") {
  for (const std::string& level : levels())
    for (const DType dtype : kStorage)
      for (const bool tanh_form : {false, true})
        for (const int64_t n : kLengths) {
          INFO(level << " " << name(dtype) << " tanh " << tanh_form << " n " << n);
          Rig rig;
          const auto table = cpu_kernels_at(level);
          const Tensor x = rig.random({n}, dtype, 1, 3.0), dy = rig.random({n}, dtype, 2);
          const Tensor y = rig.empty({n}, dtype), dx = rig.empty({n}, dtype);
          const auto f = [&](double v) { return gelu(v, tanh_form); };
          const Values want = map(values(x), f);
          Values want_dx = map(values(x), [&](double v) { return slope(f, v); });
          for (size_t i = 0; i < want_dx.size(); ++i) want_dx[i] *= values(dy)[i];
          table.get<GeluForward>()({.x = x, .y = y, .tanh_form = tanh_form}, rig.stream());
          table.get<GeluBackward>()({.x = x, .dy = dy, .dx = dx, .tanh_form = tanh_form}, rig.stream());
          CHECK(error(y, want) < tolerance(dtype, 1e-6));
          CHECK(error(dx, want_dx) < tolerance(dtype, 1e-6));
          table.get<GeluBackward>()({.x = x, .dy = dy, .dx = dy, .tanh_form = tanh_form}, rig.stream());
          table.get<GeluForward>()({.x = x, .y = x, .tanh_form = tanh_form}, rig.stream());
          CHECK(same_bits(x, y));
          CHECK(same_bits(dx, dy));
        }
}

TEST_CASE("GELU is accurate in absolute terms over its whole range and calm at its ends", "[kernels][gelu]") {
  for (const std::string& level : levels())
    for (const bool tanh_form : {false, true}) {
      INFO(level << " tanh " << tanh_form);
      Rig rig;
      const auto table = cpu_kernels_at(level);
      Values points;
      for (double v = -14; v <= 14; v += 0.0137) points.push_back(v);
      for (const double v : {0.0, -1e30, 1e30, -3e38, 3e38, 1e-30, -200.0, 200.0}) points.push_back(v);
      const int64_t n = static_cast<int64_t>(points.size());
      const Tensor x = rig.empty({n}), y = rig.empty({n}), dx = rig.empty({n}), one = rig.constant({n}, DType::f32, 1);
      assign(x, points);
      table.get<GeluForward>()({.x = x, .y = y, .tanh_form = tanh_form}, rig.stream());
      table.get<GeluBackward>()({.x = x, .dy = one, .dx = dx, .tanh_form = tanh_form}, rig.stream());
      const Values got = values(y), slopes = values(dx), at = values(x);
      for (size_t i = 0; i < got.size(); ++i) {
        INFO("x = " << at[i]);
        CHECK(std::abs(got[i] - gelu(at[i], tanh_form)) <= 1e-6 * std::max(1.0, std::abs(at[i])));
        if (std::abs(at[i]) > 100) CHECK(slopes[i] == (at[i] > 0 ? 1.0 : 0.0));
      }
    }
}

TEST_CASE("SwiGLU and its gradient equal f64; the gradient may overwrite its input", "[kernels][swiglu]") {
  for (const std::string& level : levels())
    for (const DType dtype : kStorage)
      for (const int64_t f : {1, 7, 16, 37, 64}) {
        INFO(level << " " << name(dtype) << " F " << f);
        Rig rig;
        const int64_t tokens = 5;
        const auto table = cpu_kernels_at(level);
        const Tensor gate_up = rig.random({tokens, 2 * f}, dtype, 1, 3.0), dy = rig.random({tokens, f}, dtype, 2);
        const Tensor y = rig.empty({tokens, f}, dtype), dgate_up = rig.empty({tokens, 2 * f}, dtype);
        const auto forward = [&](const Values& x) {
          Values out;
          for (int64_t t = 0; t < tokens; ++t)
            for (int64_t c = 0; c < f; ++c)
              out.push_back(silu(x[static_cast<size_t>(t * 2 * f + c)]) * x[static_cast<size_t>(t * 2 * f + f + c)]);
          return out;
        };
        const Values x = values(gate_up);
        table.get<SwigluForward>()({.gate_up = gate_up, .y = y}, rig.stream());
        table.get<SwigluBackward>()({.gate_up = gate_up, .dy = dy, .dgate_up = dgate_up}, rig.stream());
        CHECK(error(y, forward(x)) < tolerance(dtype, 1e-6));
        CHECK(error(dgate_up, numeric_gradient(forward, x, values(dy))) < tolerance(dtype, 2e-6));
        table.get<SwigluBackward>()({.gate_up = gate_up, .dy = dy, .dgate_up = gate_up}, rig.stream());
        CHECK(same_bits(gate_up, dgate_up));
      }
}

TEST_CASE("add rounds the exact sum once and may overwrite either operand", "[kernels][add]") {
  for (const std::string& level : levels())
    for (const DType dtype : kStorage)
      for (const int64_t n : kLengths) {
        INFO(level << " " << name(dtype) << " n " << n);
        Rig rig;
        const auto add = cpu_kernels_at(level).get<Add>();
        const Tensor a = rig.random({n}, dtype, 1), b = rig.random({n}, dtype, 2), y = rig.empty({n}, dtype);
        const Tensor want = rig.empty({n}, dtype);
        Values sum = values(a);
        for (size_t i = 0; i < sum.size(); ++i)  // an f32 sum of two bf16 is rounded once more at the store
          sum[i] = static_cast<double>(static_cast<float>(sum[i] + values(b)[i]));
        assign(want, sum);
        add({.a = a, .b = b, .y = y}, rig.stream());
        CHECK(same_bits(y, want));
        const Tensor a2 = rig.copy(a), b2 = rig.copy(b);
        add({.a = a2, .b = b, .y = a2}, rig.stream());
        add({.a = a, .b = b2, .y = b2}, rig.stream());
        CHECK(same_bits(a2, want));
        CHECK(same_bits(b2, want));
      }
}

TEST_CASE("a cast to bf16 rounds to nearest even, ties, infinities, NaN and denormals included", "[kernels][cast]") {
  for (const std::string& level : levels()) {
    INFO(level);
    Rig rig;
    const auto cast = cpu_kernels_at(level).get<Cast>();
    const uint32_t cases[] = {0x3f800000, 0x3f808000, 0x3f808001, 0x3f818000, 0x3f817fff, 0xbf808000, 0x7f800000,
                              0xff800000, 0x7fc00000, 0x7f800001, 0x7f7fffff, 0xff7fffff, 0x00000001, 0x00008000,
                              0x00008001, 0x80018000, 0x00000000, 0x80000000, 0x7fffffff, 0x3f80ffff, 0x42c88000};
    const int64_t n = static_cast<int64_t>(std::size(cases));
    const Tensor x = rig.empty({n}), y = rig.empty({n}, DType::bf16);
    for (size_t i = 0; i < std::size(cases); ++i) static_cast<float*>(x.data())[i] = std::bit_cast<float>(cases[i]);
    cast({.x = x, .y = y}, rig.stream());
    for (size_t i = 0; i < std::size(cases); ++i) {
      // Independently: the nearer of the two neighbours in f64, the even one on a tie; the value past the largest is
      // inf.
      const uint32_t u = cases[i];
      const uint16_t got = static_cast<const bf16*>(y.data())[i].bits;
      INFO(std::hex << u << " -> " << got);
      if ((u & 0x7fffffff) > 0x7f800000) {
        CHECK((got & 0x7f80) == 0x7f80);
        CHECK((got & 0x7f) != 0);
        continue;
      }
      const auto at = [](uint32_t high) {
        return high == 0x7f80 ? std::ldexp(1.0, 128) : static_cast<double>(std::bit_cast<float>(high << 16));
      };
      const uint32_t down = (u & 0x7fffffff) >> 16, up = down + 1;
      const double v = std::abs(static_cast<double>(std::bit_cast<float>(u)));
      uint32_t want = down;
      if ((u & 0xffff) && (v - at(down) > at(up) - v || (v - at(down) == at(up) - v && (up & 1) == 0))) want = up;
      CHECK(got == static_cast<uint16_t>(want | ((u >> 16) & 0x8000)));
    }
  }
}

TEST_CASE("casts keep values, whatever the strides", "[kernels][cast]") {
  for (const std::string& level : levels())
    for (const DType from : kStorage)
      for (const DType to : kStorage)
        for (const int64_t cols : {1, 5, 16, 37}) {
          INFO(level << " " << name(from) << " -> " << name(to) << " cols " << cols);
          Rig rig;
          const auto cast = cpu_kernels_at(level).get<Cast>();
          const Tensor plain = rig.random({4, cols}, from, 1), x = rig.spread(plain, cols + 3);
          const Tensor y = rig.empty({4, cols}, to), want = rig.empty({4, cols}, to);
          const Tensor padded = rig.spread(rig.constant({4, cols}, to, 0), cols + 2);
          assign(want, values(plain));
          cast({.x = x, .y = y}, rig.stream());
          CHECK(same_bits(y, want));
          cast({.x = plain, .y = padded}, rig.stream());
          CHECK(values(padded) == values(want));
          CHECK(std::isnan(values(padded.strided({1}, {1}, cols))[0]));  // the gap is not touched
        }
}
