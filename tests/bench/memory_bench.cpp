// tests/bench/memory_bench.cpp -- kernels that move memory, in bytes read and written per second.
#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "base/philox.h"
#include "kernel_bench.h"

namespace trainctl::bench {
namespace {

using namespace kernels;

// Beyond the last cache, so that memory is what is measured.
constexpr int64_t kRows = 16384, kCols = 1024, kNumel = kRows * kCols;

void elementwise(Bench& bench, DType dtype) {
  const std::string type(name(dtype));
  const int64_t bytes = kNumel * size_of(dtype);
  const Tensor x = bench.uniform({kRows, kCols}, dtype, 1), dy = bench.uniform({kRows, kCols}, dtype, 2);
  const Tensor y = bench.empty({kRows, kCols}, dtype), half = bench.empty({kRows, kCols / 2}, dtype);
  const double close = dtype == DType::bf16 ? 1e-2 : 1e-5;
  const auto sample = [&](const std::string& what, const Tensor& got, const auto& want) {
    for (int64_t i = 0; i < 20; ++i) {
      const int64_t r = i * 811 % got.dim(0), c = i * 53 % got.dim(1);
      bench.expect_near(what, bench.at(got, {r, c}), want(r, c), close);
    }
  };
  const Add add{.a = x, .b = dy, .y = y};
  bench.run(add);
  sample("add", y, [&](int64_t r, int64_t c) { return bench.at(x, {r, c}) + bench.at(dy, {r, c}); });
  bench.bytes_row("add " + type, 3 * bytes, [&] { bench.run(add); });
  for (const bool tanh_form : {false, true}) {
    const std::string form = tanh_form ? "tanh " : "exact ";
    const GeluForward gelu{.x = x, .y = y, .tanh_form = tanh_form};
    bench.run(gelu);
    sample("gelu", y, [&](int64_t r, int64_t c) {
      const double v = bench.at(x, {r, c});
      return tanh_form ? 0.5 * v * (1 + std::tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)))
                       : 0.5 * v * std::erfc(-v / std::sqrt(2.0));
    });
    bench.bytes_row("gelu forward " + form + type, 2 * bytes, [&] { bench.run(gelu); });
    const GeluBackward back{.x = x, .dy = dy, .dx = y, .tanh_form = tanh_form};
    bench.bytes_row("gelu backward " + form + type, 3 * bytes, [&] { bench.run(back); });
  }
  const SwigluForward swiglu{.gate_up = x, .y = half};
  bench.run(swiglu);
  sample("swiglu", half, [&](int64_t r, int64_t c) {
    const double g = bench.at(x, {r, c});
    return g / (1 + std::exp(-g)) * bench.at(x, {r, c + kCols / 2});
  });
  bench.bytes_row("swiglu forward " + type, bytes + bytes / 2, [&] { bench.run(swiglu); });
  const SwigluBackward swiglu_back{.gate_up = x, .dy = half, .dgate_up = y};
  bench.bytes_row("swiglu backward " + type, 2 * bytes + bytes / 2, [&] { bench.run(swiglu_back); });
  const Dropout dropout{.x = x, .y = y, .probability = 0.1, .key = 1, .site = 2};
  bench.run(dropout);
  sample("dropout", y, [&](int64_t r, int64_t c) {
    const uint64_t e = static_cast<uint64_t>(r * kCols + c);
    return philox(1, 2, e / 4)[e % 4] >= 429496730u ? bench.at(x, {r, c}) / 0.9 : 0.0;
  });
  bench.bytes_row("dropout " + type, 2 * bytes, [&] { bench.run(dropout); });
}

void rows(Bench& bench, DType dtype) {
  const std::string type(name(dtype));
  const int64_t bytes = kNumel * size_of(dtype);
  const Tensor x = bench.uniform({kRows, kCols}, dtype, 1), dy = bench.uniform({kRows, kCols}, dtype, 2);
  const Tensor y = bench.empty({kRows, kCols}, dtype);
  const Tensor gain = bench.constant({kCols}, dtype, 1), bias = bench.constant({kCols}, dtype, 0);
  const Tensor mean = bench.empty({kRows}), rstd = bench.empty({kRows});
  const Tensor dgain = bench.constant({kCols}, DType::f32, 0), dbias = bench.constant({kCols}, DType::f32, 0);
  const auto moment = [&](int64_t r, double centre) {
    double s = 0;
    for (int64_t c = 0; c < kCols; ++c) s += std::pow(bench.at(x, {r, c}) - centre, 2);
    return s / static_cast<double>(kCols);
  };
  const LayerNormForward layer{.x = x, .gain = gain, .bias = bias, .y = y, .mean = mean, .rstd = rstd};
  bench.run(layer);
  bench.expect_near("layernorm", bench.at(rstd, {77}), 1 / std::sqrt(moment(77, bench.at(mean, {77})) + 1e-5), 1e-5);
  bench.bytes_row("layernorm forward " + type, 2 * bytes, [&] { bench.run(layer); });
  const LayerNormBackward layer_back{
      .x = x, .gain = gain, .mean = mean, .rstd = rstd, .dy = dy, .dx = y, .dgain = dgain, .dbias = dbias};
  bench.bytes_row("layernorm backward " + type, 3 * bytes, [&] { bench.run(layer_back); });
  const RmsNormForward rms{.x = x, .gain = gain, .y = y, .rstd = rstd};
  bench.run(rms);
  bench.expect_near("rmsnorm", bench.at(rstd, {99}), 1 / std::sqrt(moment(99, 0) + 1e-5), 1e-5);
  bench.bytes_row("rmsnorm forward " + type, 2 * bytes, [&] { bench.run(rms); });
  const RmsNormBackward rms_back{.x = x, .gain = gain, .rstd = rstd, .dy = dy, .dx = y, .dgain = dgain};
  bench.bytes_row("rmsnorm backward " + type, 3 * bytes, [&] { bench.run(rms_back); });
  const ColumnSum columns{.x = x, .out = dbias};
  bench.bytes_row("column sum " + type, bytes, [&] { bench.run(columns); });
}

void optimizer(Bench& bench) {
  const Shape flat = {kNumel};
  const Tensor master = bench.uniform(flat, DType::f32, 1), grad = bench.uniform(flat, DType::f32, 2);
  const Tensor m = bench.constant(flat, DType::f32, 0), v = bench.constant(flat, DType::f32, 0);
  const Tensor weight = bench.empty(flat, DType::bf16), total = bench.empty({1}, DType::f64);
  const double before = bench.at(master, {5}), g = bench.at(grad, {5});
  AdamW adamw{.master = master, .m = m, .v = v, .weight = weight, .grad = grad, .lr = 1e-3, .weight_decay = 0.1};
  bench.run(adamw);
  bench.expect_near("adamw", bench.at(master, {5}), before - 1e-3 * (g / (std::abs(g) + 1e-8) + 0.1 * before), 1e-6);
  bench.bytes_row("adamw with bf16 weights", kNumel * 30, [&] { bench.run(adamw); });
  adamw.weight = {};
  bench.bytes_row("adamw", kNumel * 28, [&] { bench.run(adamw); });
  const Sgd sgd{.master = master, .buffer = m, .weight = {}, .grad = grad, .lr = 1e-3, .momentum = 0.9};
  bench.bytes_row("sgd with momentum", kNumel * 20, [&] { bench.run(sgd); });
  *static_cast<double*>(total.data()) = 0;
  const SumOfSquares squares{.x = grad, .out = total};
  bench.run(squares);
  double want = 0;
  for (int64_t i = 0; i < kNumel; ++i) want += std::pow(bench.at(grad, {i}), 2);
  bench.expect_near("sum of squares", *static_cast<double*>(total.data()), want, 1e-9);
  bench.bytes_row("sum of squares", kNumel * 4, [&] { bench.run(squares); });
  const Cast cast{.x = grad, .y = weight};
  bench.bytes_row("cast f32 to bf16", kNumel * 6, [&] { bench.run(cast); });
}

void tables(Bench& bench) {
  constexpr int64_t tokens = 1024, vocab = 50304, d_model = 768;
  const Tensor logits = bench.uniform({tokens, vocab}, DType::f32, 1), ids = bench.empty({tokens}, DType::i32);
  for (int64_t t = 0; t < tokens; ++t) static_cast<int32_t*>(ids.data())[t] = static_cast<int32_t>(t * 48611 % vocab);
  const Tensor maximum = bench.empty({tokens}), sum = bench.empty({tokens}), target = bench.empty({tokens});
  const CrossEntropyMax max{.logits = logits, .maximum = maximum};
  const CrossEntropySum total{.logits = logits, .labels = ids, .maximum = maximum, .sum = sum, .target = target};
  const CrossEntropyGrad grad{.logits = logits, .labels = ids, .maximum = maximum, .sum = sum, .dlogits = {}};
  bench.run(max);
  bench.run(total);
  double want = 0;
  for (int64_t c = 0; c < vocab; ++c) want += std::exp(bench.at(logits, {3, c}) - bench.at(maximum, {3}));
  bench.expect_near("cross-entropy sum", bench.at(sum, {3}), want, 1e-5);
  const int64_t bytes = tokens * vocab * 4;
  bench.bytes_row("cross-entropy max", bytes, [&] { bench.run(max); });
  bench.bytes_row("cross-entropy sum", bytes, [&] { bench.run(total); });
  bench.bytes_row("cross-entropy gradient", 2 * bytes, [&] { bench.run(grad); });
  const Tensor weight = bench.uniform({vocab, d_model}, DType::f32, 2), y = bench.empty({tokens, d_model});
  const Tensor dweight = bench.constant({vocab, d_model}, DType::f32, 0);
  const EmbeddingForward lookup{.ids = ids, .weight = weight, .y = y};
  bench.run(lookup);
  bench.expect_near("embedding", bench.at(y, {7, 5}), bench.at(weight, {7 * 48611 % vocab, 5}), 0);
  bench.bytes_row("embedding forward", 2 * tokens * d_model * 4, [&] { bench.run(lookup); });
  const EmbeddingBackward scatter{.ids = ids, .dy = y, .dweight = dweight};
  bench.bytes_row("embedding backward", 3 * tokens * d_model * 4, [&] { bench.run(scatter); });
  const Tensor x = bench.uniform({4096, 12, 64}, DType::f32, 3), positions = bench.empty({4096}, DType::i32);
  const Tensor cosine = bench.constant({4096, 32}, DType::f32, 1), sine = bench.constant({4096, 32}, DType::f32, 0);
  for (int64_t t = 0; t < 4096; ++t) static_cast<int32_t*>(positions.data())[t] = static_cast<int32_t>(t);
  const Rope rope{.x = x, .positions = positions, .cosine = cosine, .sine = sine};
  bench.bytes_row("rope (cached)", 2 * x.bytes(), [&] { bench.run(rope); });
}

}  // namespace

void bench_memory_bound(Bench& bench) {
  const Tensor from = bench.uniform({kNumel}, DType::f32, 1), to = bench.empty({kNumel});
  bench.bytes_row("memcpy, one thread", 2 * from.bytes(),
                  [&] { std::memcpy(to.data(), from.data(), static_cast<size_t>(from.bytes())); });
  for (const DType dtype : {DType::f32, DType::bf16}) {
    elementwise(bench, dtype);
    rows(bench, dtype);
  }
  optimizer(bench);
  tables(bench);
}

}  // namespace trainctl::bench
