// lib/ops/norm.cpp -- RMSNorm, LayerNorm, and RMSNorm of heads inside a fused projection.
#include "ops/ops.h"

namespace trainctl {

Tensor rmsnorm(Tape& tape, const Tensor& x, const Weight& gain, float eps) {
  Context& ctx = tape.context();
  Tensor y = ctx.empty_like(x);
  Tensor rstd = ctx.empty({x.dim(0)}, DType::f32);
  ctx.run(kernels::RmsNormForward{.x = x, .gain = gain.value, .y = y, .rstd = rstd, .eps = eps});
  tape.record("rmsnorm", {x}, y, [&ctx, gain, x, rstd](const Tensor& dy) -> Gradients {
    Tensor dx = ctx.empty_like(x);
    ctx.run(kernels::RmsNormBackward{.x = x, .gain = gain.value, .rstd = rstd, .dy = dy, .dx = dx, .dgain = gain.grad});
    return {dx};
  });
  return y;
}

Tensor layernorm(Tape& tape, const Tensor& x, const Weight& gain, const Weight& bias, float eps) {
  Context& ctx = tape.context();
  Tensor y = ctx.empty_like(x);
  Tensor mean = ctx.empty({x.dim(0)}, DType::f32), rstd = ctx.empty({x.dim(0)}, DType::f32);
  ctx.run(kernels::LayerNormForward{
      .x = x, .gain = gain.value, .bias = bias.value, .y = y, .mean = mean, .rstd = rstd, .eps = eps});
  tape.record("layernorm", {x}, y, [&ctx, gain, bias, x, mean, rstd](const Tensor& dy) -> Gradients {
    Tensor dx = ctx.empty_like(x);
    ctx.run(kernels::LayerNormBackward{.x = x,
                                       .gain = gain.value,
                                       .mean = mean,
                                       .rstd = rstd,
                                       .dy = dy,
                                       .dx = dx,
                                       .dgain = gain.grad,
                                       .dbias = bias.grad});
    return {dx};
  });
  return y;
}

namespace {

// Heads [first, first + count) of a fused projection as [T, count, C].
Tensor heads_of(const Tensor& qkv, const HeadLayout& l, int64_t first, int64_t count) {
  return qkv.strided({qkv.dim(0), count, l.head_dim}, {l.width(), l.head_dim, 1}, first * l.head_dim);
}

}  // namespace

Tensor qk_norm(Tape& tape, const Tensor& qkv, const HeadLayout& l, const Weight& q_gain, const Weight& k_gain,
               float eps) {
  Context& ctx = tape.context();
  const int64_t rows = qkv.dim(0);
  Tensor y = ctx.empty_like(qkv);
  Tensor q_rstd = ctx.empty({rows, l.heads}, DType::f32), k_rstd = ctx.empty({rows, l.kv_heads}, DType::f32);
  const auto values = [&](const Tensor& t) { return t.slice(1, (l.heads + l.kv_heads) * l.head_dim, l.width()); };
  ctx.run(kernels::RmsNormForward{.x = heads_of(qkv, l, 0, l.heads),
                                  .gain = q_gain.value,
                                  .y = heads_of(y, l, 0, l.heads),
                                  .rstd = q_rstd,
                                  .eps = eps});
  ctx.run(kernels::RmsNormForward{.x = heads_of(qkv, l, l.heads, l.kv_heads),
                                  .gain = k_gain.value,
                                  .y = heads_of(y, l, l.heads, l.kv_heads),
                                  .rstd = k_rstd,
                                  .eps = eps});
  ctx.run(kernels::Cast{.x = values(qkv), .y = values(y)});
  tape.record("qk_norm", {qkv}, y, [&ctx, l, q_gain, k_gain, qkv, q_rstd, k_rstd](const Tensor& dy) -> Gradients {
    Tensor dx = ctx.empty_like(qkv);
    ctx.run(kernels::RmsNormBackward{.x = heads_of(qkv, l, 0, l.heads),
                                     .gain = q_gain.value,
                                     .rstd = q_rstd,
                                     .dy = heads_of(dy, l, 0, l.heads),
                                     .dx = heads_of(dx, l, 0, l.heads),
                                     .dgain = q_gain.grad});
    ctx.run(kernels::RmsNormBackward{.x = heads_of(qkv, l, l.heads, l.kv_heads),
                                     .gain = k_gain.value,
                                     .rstd = k_rstd,
                                     .dy = heads_of(dy, l, l.heads, l.kv_heads),
                                     .dx = heads_of(dx, l, l.heads, l.kv_heads),
                                     .dgain = k_gain.grad});
    const int64_t values_at = (l.heads + l.kv_heads) * l.head_dim;
    ctx.run(kernels::Cast{.x = dy.slice(1, values_at, l.width()), .y = dx.slice(1, values_at, l.width())});
    return {dx};
  });
  return y;
}

}  // namespace trainctl
