// lib/ops/attention.cpp -- causal grouped-query attention over a fused projection; saves out and lse, no S x S matrix.
#include <cmath>

#include "ops/ops.h"

namespace trainctl {
namespace {

struct Parts {
  Tensor q, k, v;
};

// [B, S, heads, C] views into [T, (H + 2K) C].
Parts parts_of(const Tensor& qkv, const HeadLayout& l) {
  const auto view = [&](int64_t first, int64_t count) {
    return qkv.strided({l.batch, l.sequence, count, l.head_dim}, {l.sequence * l.width(), l.width(), l.head_dim, 1},
                       first * l.head_dim);
  };
  return {view(0, l.heads), view(l.heads, l.kv_heads), view(l.heads + l.kv_heads, l.kv_heads)};
}

}  // namespace

Tensor attention(Tape& tape, const Tensor& qkv, const HeadLayout& l, const Tensor& document_start) {
  Context& ctx = tape.context();
  const auto heads_shape = Shape{l.batch, l.sequence, l.heads, l.head_dim};
  const float scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(l.head_dim)));
  Tensor out = ctx.empty({l.batch * l.sequence, l.heads * l.head_dim}, qkv.dtype());
  Tensor lse = ctx.empty({l.batch, l.heads, l.sequence}, DType::f32);
  const Parts in = parts_of(qkv, l);
  ctx.run(kernels::AttentionForward{.q = in.q,
                                    .k = in.k,
                                    .v = in.v,
                                    .document_start = document_start,
                                    .out = out.reshape(heads_shape),
                                    .lse = lse,
                                    .scale = scale,
                                    .group = l.group,
                                    .head_offset = l.head_offset});
  tape.record("attention", {qkv}, out,
              [&ctx, l, heads_shape, scale, qkv, document_start, saved = out, lse](const Tensor& dy) -> Gradients {
                Tensor dqkv = ctx.empty_like(qkv);
                Tensor delta = ctx.empty({l.batch, l.heads, l.sequence}, DType::f32);
                const Parts x = parts_of(qkv, l), dx = parts_of(dqkv, l);
                ctx.run(kernels::AttentionBackward{.q = x.q,
                                                   .k = x.k,
                                                   .v = x.v,
                                                   .document_start = document_start,
                                                   .out = saved.reshape(heads_shape),
                                                   .lse = lse,
                                                   .dout = dy.reshape(heads_shape),
                                                   .dq = dx.q,
                                                   .dk = dx.k,
                                                   .dv = dx.v,
                                                   .delta = delta,
                                                   .scale = scale,
                                                   .group = l.group,
                                                   .head_offset = l.head_offset});
                return {dqkv};
              });
  return out;
}

}  // namespace trainctl
