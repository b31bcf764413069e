// lib/ops/cross_entropy.cpp -- the head's product and the loss, a chunk of rows at a time.
#include <algorithm>

#include "base/units.h"
#include "ops/ops.h"

namespace trainctl {
namespace {

// Rows per chunk: all chunks about equal, logits of one at most `chunk_bytes`, never under 64 rows.
int64_t chunk_rows(int64_t rows, int64_t columns, int64_t chunk_bytes) {
  const int64_t most = std::max<int64_t>(64, chunk_bytes / std::max<int64_t>(1, columns * size_of(DType::f32)));
  const int64_t chunks = std::max<int64_t>(1, ceil_div(rows, most));
  return std::max<int64_t>(1, ceil_div(rows, chunks));
}

}  // namespace

Tensor linear_cross_entropy(Tape& tape, const Tensor& x, const Weight& weight, const Tensor& labels,
                            VocabReducer& reducer, const Tensor& loss_sum, const CrossEntropyOptions& options) {
  Context& ctx = tape.context();
  const bool train = tape.recording();
  const bool narrow = x.dtype() == DType::bf16;
  const int64_t rows = x.dim(0), columns = weight.value.dim(0);
  const int64_t leading = round_up(std::max<int64_t>(columns, 1), 16);  // keeps every row of logits on a cache line
  const int64_t step = chunk_rows(rows, leading, options.chunk_bytes);
  Tensor dx = train ? ctx.empty_like(x) : Tensor();

  for (int64_t begin = 0; begin < rows; begin += step) {
    const int64_t end = std::min(rows, begin + step), n = end - begin;
    const Tensor x_chunk = x.slice(0, begin, end), labels_chunk = labels.slice(0, begin, end);
    const Tensor logits = ctx.empty({n, leading}, DType::f32).slice(1, 0, columns);
    ctx.run(kernels::Gemm{.a = x_chunk, .b = weight.value.transpose(), .bias = {}, .c = logits});

    const Tensor maximum = ctx.empty({n}, DType::f32);
    const Tensor sums = ctx.empty({2, n}, DType::f32);  // exponentials, then label logits: they meet in one message
    const Tensor sum = sums.flat_slice(0, {n}), target = sums.flat_slice(n, {n});
    ctx.run(kernels::CrossEntropyMax{.logits = logits, .maximum = maximum});
    reducer.maximum(maximum, ctx);
    ctx.run(kernels::CrossEntropySum{.logits = logits,
                                     .labels = labels_chunk,
                                     .maximum = maximum,
                                     .sum = sum,
                                     .target = target,
                                     .column_begin = options.column_begin});
    reducer.sum(sums, ctx);
    ctx.run(kernels::CrossEntropyLoss{.labels = labels_chunk, .sum = sum, .target = target, .loss = loss_sum});
    if (!train) continue;

    Tensor dlogits = narrow ? ctx.empty({n, leading}, DType::bf16).slice(1, 0, columns) : Tensor();
    ctx.run(kernels::CrossEntropyGrad{.logits = logits,
                                      .labels = labels_chunk,
                                      .maximum = maximum,
                                      .sum = sum,
                                      .dlogits = dlogits,
                                      .scale = options.scale,
                                      .column_begin = options.column_begin});
    if (!narrow) dlogits = logits;
    if (weight.grad)
      ctx.run(kernels::Gemm{.a = dlogits.transpose(), .b = x_chunk, .bias = {}, .c = weight.grad, .accumulate = true});
    ctx.run(kernels::Gemm{.a = dlogits, .b = weight.value, .bias = {}, .c = dx.slice(0, begin, end)});
  }

  Tensor loss = loss_sum;
  tape.record("linear_cross_entropy", {x}, loss, [dx](const Tensor&) mutable -> Gradients {
    Gradients out{std::move(dx)};
    return out;
  });
  return loss;
}

}  // namespace trainctl
