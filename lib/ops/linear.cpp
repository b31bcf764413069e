// lib/ops/linear.cpp -- y = x W^T + b, and the lone bias.
#include "ops/ops.h"

namespace trainctl {

Tensor linear(Tape& tape, const Tensor& x, const Weight& weight, const Weight& bias) {
  Context& ctx = tape.context();
  Tensor y = ctx.empty({x.dim(0), weight.value.dim(0)}, x.dtype());
  ctx.run(kernels::Gemm{.a = x, .b = weight.value.transpose(), .bias = bias.value, .c = y});

  tape.record("linear", {x}, y, [&ctx, x, weight, bias](const Tensor& dy) -> Gradients {
    if (weight.grad)
      ctx.run(kernels::Gemm{.a = dy.transpose(), .b = x, .bias = {}, .c = weight.grad, .accumulate = true});
    if (bias.grad) ctx.run(kernels::ColumnSum{.x = dy, .out = bias.grad});
    if (x.variable() < 0) return {Tensor()};
    Tensor dx = ctx.empty_like(x);
    ctx.run(kernels::Gemm{.a = dy, .b = weight.value, .bias = {}, .c = dx});
    return {dx};
  });
  return y;
}

Tensor add_bias(Tape& tape, const Tensor& x, const Weight& bias) {
  if (!bias) return x;
  Context& ctx = tape.context();
  // One row of bias seen as every row: a view with stride 0 would break the kernel's contiguity, so the sum is a
  // matrix product of depth 0 with a bias, accumulated onto a copy of x only when x is shared.
  Tensor y = ctx.own(x);
  const Tensor nothing_left = y.strided({y.dim(0), 0}, {1, 1}, 0), nothing_right = y.strided({0, y.dim(1)}, {1, 1}, 0);
  ctx.run(kernels::Gemm{.a = nothing_left, .b = nothing_right, .bias = bias.value, .c = y, .accumulate = true});
  const int variable = x.variable();
  Tensor input;
  input.set_variable(variable);
  tape.record("add_bias", {input}, y, [&ctx, bias](const Tensor& dy) -> Gradients {
    if (bias.grad) ctx.run(kernels::ColumnSum{.x = dy, .out = bias.grad});
    return {dy};
  });
  return y;
}

}  // namespace trainctl
