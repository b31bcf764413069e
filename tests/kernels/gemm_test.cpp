// tests/kernels/gemm_test.cpp -- matrix products against f64, in every combination the contract allows.
#include <algorithm>
#include <cmath>
#include <thread>

#include "fixture.h"
#include "support/catch.h"

using namespace trainctl;
using namespace trainctl::testing;
using kernels::Gemm;

namespace {

Values product(const Values& a, const Values& b, int64_t m, int64_t n, int64_t k) {
  Values c(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t p = 0; p < k; ++p)
      for (int64_t j = 0; j < n; ++j)
        c[static_cast<size_t>(i * n + j)] += a[static_cast<size_t>(i * k + p)] * b[static_cast<size_t>(p * n + j)];
  return c;
}

// A [rows, cols] view whose memory lies by rows or by columns, padded by `gap` elements.
Tensor operand(Rig& rig, int64_t rows, int64_t cols, bool transposed, int64_t gap, DType dtype, uint64_t seed) {
  if (transposed) return rig.random({cols, rows + gap}, dtype, seed).slice(1, 0, rows).transpose();
  return rig.random({rows, cols + gap}, dtype, seed).slice(1, 0, cols);
}

struct Types {
  DType in, out;
};

void check_case(Rig& rig, const kernels::KernelTable& table, Types types, int64_t m, int64_t n, int64_t k, bool ta,
                bool tb, bool with_bias, bool accumulate, int64_t gap) {
  INFO(name(types.in) << " -> " << name(types.out) << " m " << m << " n " << n << " k " << k << " ta " << ta << " tb "
                      << tb << " bias " << with_bias << " accumulate " << accumulate << " gap " << gap);
  const Tensor a = operand(rig, m, k, ta, gap, types.in, 1), b = operand(rig, k, n, tb, gap, types.in, 2);
  const Tensor whole = rig.random({m, n + gap}, types.out, 3);
  const Tensor c = whole.slice(1, 0, n), margin = whole.slice(1, n, n + gap);
  const Tensor bias = with_bias ? rig.random({n}, types.in, 4) : Tensor();
  Values want = product(values(a), values(b), m, n, k);
  const Values before = values(c), margin_before = values(margin), bias_values = with_bias ? values(bias) : Values();
  for (size_t i = 0; i < want.size(); ++i) {
    if (with_bias) want[i] += bias_values[i % static_cast<size_t>(n)];
    if (accumulate) want[i] += before[i];
  }
  table.get<Gemm>()({.a = a, .b = b, .bias = bias, .c = c, .accumulate = accumulate}, rig.stream());
  CHECK(error(c, want) < tolerance(types.out, 3e-6));
  CHECK(values(margin) == margin_before);
}

constexpr Types kTypes[] = {{DType::f32, DType::f32}, {DType::bf16, DType::f32}, {DType::bf16, DType::bf16}};

}  // namespace

TEST_CASE("a product equals the f64 product for all transposes, biases and accumulations", "[kernels][gemm]") {
  for (const std::string& level : levels()) {
    INFO(level);
    Rig rig;
    const auto table = kernels::cpu_kernels_at(level);
    for (const Types types : kTypes)
      for (int bits = 0; bits < 16; ++bits)
        check_case(rig, table, types, 13, 29, 37, bits & 1, bits & 2, bits & 4, bits & 8, bits % 3);
  }
}

TEST_CASE("a product is right for single rows and columns, odd vocabularies and long sums", "[kernels][gemm]") {
  for (const std::string& level : levels()) {
    INFO(level);
    Rig rig;
    const auto table = kernels::cpu_kernels_at(level);
    const int64_t sizes[][3] = {{1, 1, 1},     {1, 64, 32},   {64, 1, 32},  {33, 65, 1},  {1, 7, 50},   {5, 257, 48},
                                {48, 16, 257}, {257, 31, 64}, {8, 8, 2500}, {64, 64, 64}, {2, 1500, 3}, {1030, 3, 5}};
    for (const Types types : kTypes)
      for (const auto& [m, n, k] : sizes)
        for (int bits = 0; bits < 4; ++bits)
          check_case(rig, table, types, m, n, k, bits & 1, bits & 2, bits == 1, bits == 2, 0);
  }
}

TEST_CASE("an empty inner dimension gives the bias or zero, and accumulation keeps c", "[kernels][gemm]") {
  for (const std::string& level : levels()) {
    INFO(level);
    Rig rig;
    const auto table = kernels::cpu_kernels_at(level);
    for (const Types types : kTypes) {
      for (int bits = 0; bits < 4; ++bits) check_case(rig, table, types, 3, 5, 0, false, false, bits & 1, bits & 2, 2);
      check_case(rig, table, types, 0, 5, 3, false, false, true, false, 1);
      check_case(rig, table, types, 3, 0, 4, false, true, false, false, 1);
    }
  }
}

TEST_CASE("the same product has the same bits every time, on any rank thread", "[kernels][gemm]") {
  Rig rig;
  const auto table = kernels::cpu_kernels();
  for (const Types types : kTypes) {
    const Tensor a = rig.random({96, 200}, types.in, 1), b = rig.random({300, 200}, types.in, 2);
    const auto run = [&](const Tensor& c) {
      const auto device = make_cpu_device();
      const auto stream = device->make_compute_stream();
      table.get<Gemm>()({.a = a, .b = b.transpose(), .bias = {}, .c = c}, *stream);
    };
    const Tensor first = rig.empty({96, 300}, types.out), again = rig.empty({96, 300}, types.out);
    const Tensor left = rig.empty({96, 300}, types.out), right = rig.empty({96, 300}, types.out);
    run(first);
    for (int i = 0; i < 3; ++i) run(again);
    std::thread one([&] { run(left); }), two([&] { run(right); });
    one.join();
    two.join();
    CHECK(same_bits(first, again));
    CHECK(same_bits(first, left));
    CHECK(same_bits(first, right));
  }
}

TEST_CASE("many different shapes do not make the primitive cache wrong", "[kernels][gemm]") {
  Rig rig;
  const auto table = kernels::cpu_kernels();
  for (int64_t n = 1; n <= 600; n += 1) {  // more than the cache holds
    const Tensor a = rig.constant({1, 2}, DType::f32, 1.5), b = rig.constant({2, n}, DType::f32, 2.0);
    const Tensor c = rig.empty({1, n});
    table.get<Gemm>()({.a = a, .b = b, .bias = {}, .c = c}, rig.stream());
    const Values v = values(c);
    if (std::any_of(v.begin(), v.end(), [](double x) { return x != 6.0; })) FAIL("wrong product at n = " << n);
  }
  SUCCEED();
}

TEST_CASE("operands that do not fit are refused", "[kernels][gemm]") {
  Rig rig;
  const auto gemm = kernels::cpu_kernels().get<Gemm>();
  const Tensor a = rig.random({4, 6}, DType::f32, 1), b = rig.random({6, 5}, DType::f32, 2), c = rig.empty({4, 5});
  CHECK_THROWS_AS(gemm({.a = a, .b = a, .bias = {}, .c = c}, rig.stream()), Error);
  CHECK_THROWS_AS(gemm({.a = a, .b = b, .bias = {}, .c = rig.empty({4, 5}, DType::bf16)}, rig.stream()), Error);
  CHECK_THROWS_AS(gemm({.a = a, .b = rig.random({6, 5}, DType::bf16, 2), .bias = {}, .c = c}, rig.stream()), Error);
  CHECK_THROWS_AS(gemm({.a = a, .b = b, .bias = rig.random({4}, DType::f32, 3), .c = c}, rig.stream()), Error);
}
