// tests/bench/compute_bench.cpp -- matrix products and attention, each checked at sampled elements against f64.
#include <fmt/format.h>

#include <cmath>

#include "kernel_bench.h"

namespace trainctl::bench {
namespace {

using namespace kernels;

void product_row(Bench& bench, const std::string& name, const Tensor& a, const Tensor& b, DType out, bool accumulate) {
  const Tensor c = bench.constant({a.dim(0), b.dim(1)}, out, 0);
  const Gemm gemm{.a = a, .b = b, .bias = {}, .c = c, .accumulate = accumulate};
  bench.run(gemm);
  for (int64_t s = 0; s < 50; ++s) {
    const int64_t i = s * 7919 % c.dim(0), j = s * 104729 % c.dim(1);
    double want = 0;
    for (int64_t k = 0; k < a.dim(1); ++k) want += bench.at(a, {i, k}) * bench.at(b, {k, j});
    bench.expect_near(name, bench.at(c, {i, j}), want, out == DType::bf16 ? 1e-2 : 1e-4);
  }
  bench.flops_row(name, a.dtype(), flops(gemm), [&] { bench.run(gemm); });
}

void attention_rows(Bench& bench, DType dtype, int64_t batch, int64_t positions, int64_t heads, int64_t kv_heads,
                    int64_t dim) {
  const Shape q_shape = {batch, positions, heads, dim}, kv_shape = {batch, positions, kv_heads, dim};
  const Shape rows = {batch, heads, positions};
  const Tensor q = bench.uniform(q_shape, dtype, 1), k = bench.uniform(kv_shape, dtype, 2);
  const Tensor v = bench.uniform(kv_shape, dtype, 3), dout = bench.uniform(q_shape, dtype, 4);
  const Tensor out = bench.empty(q_shape, dtype), lse = bench.empty(rows), delta = bench.empty(rows);
  const Tensor dq = bench.empty(q_shape, dtype), dk = bench.empty(kv_shape, dtype), dv = bench.empty(kv_shape, dtype);
  const int64_t group = heads / kv_heads;
  const AttentionForward forward{
      .q = q, .k = k, .v = v, .document_start = {}, .out = out, .lse = lse, .scale = 0.5f, .group = group};
  const AttentionBackward backward{.q = q,
                                   .k = k,
                                   .v = v,
                                   .document_start = {},
                                   .out = out,
                                   .lse = lse,
                                   .dout = dout,
                                   .dq = dq,
                                   .dk = dk,
                                   .dv = dv,
                                   .delta = delta,
                                   .scale = 0.5f,
                                   .group = group};
  const std::string shape =
      fmt::format("{} B {} S {} H {} K {} D {}", name(dtype), batch, positions, heads, kv_heads, dim);
  bench.run(forward);
  for (int64_t s = 0; s < 20; ++s) {
    const int64_t b = s % batch, h = s * 5 % heads, i = s * 37 % positions, d = s * 11 % dim;
    double sum = 0, weighted = 0;
    for (int64_t j = 0; j <= i; ++j) {
      double score = 0;
      for (int64_t e = 0; e < dim; ++e) score += bench.at(q, {b, i, h, e}) * bench.at(k, {b, j, h / group, e});
      const double p = std::exp(0.5 * score);
      sum += p;
      weighted += p * bench.at(v, {b, j, h / group, d});
    }
    bench.expect_near("attention_forward " + shape, bench.at(out, {b, i, h, d}), weighted / sum,
                      dtype == DType::bf16 ? 1e-2 : 1e-5);
  }
  bench.run(backward);
  // Softmax weights of a query sum to 1, so the columns of dv sum to those of dout.
  for (int64_t d = 0; d < dim; d += 7) {
    double got = 0, want = 0;
    for (int64_t j = 0; j < positions; ++j) {
      got += bench.at(dv, {0, j, 0, d});
      for (int64_t h = 0; h < group; ++h) want += bench.at(dout, {0, j, h, d});
    }
    bench.expect_near("attention_backward " + shape, got, want, dtype == DType::bf16 ? 0.5 : 1e-3);
  }
  // Arithmetic is f32 for both storage types, so f32's peak is the measure.
  bench.flops_row("attention forward  " + shape, DType::f32, flops(forward), [&] { bench.run(forward); });
  bench.flops_row("attention backward " + shape, DType::f32, flops(backward), [&] { bench.run(backward); });
}

}  // namespace

void bench_gemm(Bench& bench) {
  constexpr int64_t tokens = 1024, d_model = 768;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor x = bench.uniform({tokens, d_model}, dtype, 1);
    for (const int64_t n : {768, 2304, 3072, 50304, 50257}) {
      const Tensor weight = bench.uniform({n, d_model}, dtype, 2), dy = bench.uniform({tokens, n}, dtype, 3);
      const std::string at = fmt::format("{} {} x {} x {}", name(dtype), tokens, d_model, n);
      product_row(bench, "gemm forward " + at, x, weight.transpose(), dtype, false);
      product_row(bench, "gemm dx      " + at, dy, weight, dtype, false);
      product_row(bench, "gemm dw +=   " + at, dy.transpose(), x, DType::f32, true);
    }
    // Small and odd shapes, as tiny models have.
    for (const int64_t n : {64, 257}) {
      const Tensor small = bench.uniform({256, 64}, dtype, 4), weight = bench.uniform({n, 64}, dtype, 5);
      product_row(bench, fmt::format("gemm forward {} 256 x 64 x {}", name(dtype), n), small, weight.transpose(), dtype,
                  false);
    }
  }
}

void bench_attention(Bench& bench) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    attention_rows(bench, dtype, 4, 256, 12, 12, 64);
    attention_rows(bench, dtype, 1, 2048, 12, 12, 64);
    attention_rows(bench, dtype, 1, 2048, 8, 2, 128);
    attention_rows(bench, dtype, 1, 1024, 4, 4, 80);
  }
}

}  // namespace trainctl::bench
