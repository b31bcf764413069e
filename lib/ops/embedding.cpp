// lib/ops/embedding.cpp -- table lookup, whole or a shard of rows.
#include "ops/ops.h"

namespace trainctl {

Tensor embedding(Tape& tape, const Tensor& ids, const Weight& weight, int64_t row_begin) {
  Context& ctx = tape.context();
  Tensor y = ctx.empty({ids.dim(0), weight.value.dim(1)}, weight.value.dtype());
  ctx.run(kernels::EmbeddingForward{.ids = ids, .weight = weight.value, .y = y, .row_begin = row_begin});
  tape.record("embedding", {}, y, [&ctx, ids, weight, row_begin](const Tensor& dy) -> Gradients {
    if (weight.grad)
      ctx.run(kernels::EmbeddingBackward{.ids = ids, .dy = dy, .dweight = weight.grad, .row_begin = row_begin});
    return {};
  });
  return y;
}

}  // namespace trainctl
