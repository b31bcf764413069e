// lib/ops/activation.cpp -- GELU and SwiGLU.
#include "ops/ops.h"

namespace trainctl {

Tensor gelu(Tape& tape, const Tensor& x, bool tanh_form) {
  Context& ctx = tape.context();
  Tensor y = ctx.empty_like(x);
  ctx.run(kernels::GeluForward{.x = x, .y = y, .tanh_form = tanh_form});
  tape.record("gelu", {x}, y, [&ctx, x, tanh_form](const Tensor& dy) -> Gradients {
    Tensor dx = dy.unique() ? dy : ctx.empty_like(x);
    ctx.run(kernels::GeluBackward{.x = x, .dy = dy, .dx = dx, .tanh_form = tanh_form});
    return {dx};
  });
  return y;
}

Tensor swiglu(Tape& tape, const Tensor& gate_up) {
  Context& ctx = tape.context();
  Tensor y = ctx.empty({gate_up.dim(0), gate_up.dim(1) / 2}, gate_up.dtype());
  ctx.run(kernels::SwigluForward{.gate_up = gate_up, .y = y});
  tape.record("swiglu", {gate_up}, y, [&ctx, gate_up](const Tensor& dy) -> Gradients {
    // The saved input is read for the last time here, so its gradient takes its place.
    Tensor dx = gate_up.unique() ? gate_up : ctx.empty_like(gate_up);
    ctx.run(kernels::SwigluBackward{.gate_up = gate_up, .dy = dy, .dgate_up = dx});
    return {dx};
  });
  return y;
}

}  // namespace trainctl
