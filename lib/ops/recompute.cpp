// lib/ops/recompute.cpp -- activations thrown away in the forward pass and made again in the backward pass.
#include "ops/ops.h"

namespace trainctl {

Tensor recompute(Tape& tape, const Tensor& x, const std::function<Tensor(Tape&, const Tensor&)>& f) {
  if (!tape.recording()) return f(tape, x);
  Context& ctx = tape.context();
  Tape silent(ctx, /*recording=*/false);
  Tensor y = f(silent, x);
  tape.record("recompute", {x}, y, [&ctx, x, f](const Tensor& dy) -> Gradients {
    Tape inner(ctx);
    const Tensor input = inner.leaf(x);
    const Tensor again = f(inner, input);
    return {inner.backward(again, dy, input)};
  });
  return y;
}

}  // namespace trainctl
