// lib/ops/residual.cpp -- the residual stream: add and dropout.
#include "ops/ops.h"

namespace trainctl {

Tensor add(Tape& tape, const Tensor& a, const Tensor& b) {
  Context& ctx = tape.context();
  Tensor y = ctx.empty_like(a);
  ctx.run(kernels::Add{.a = a, .b = b, .y = y});
  tape.record("add", {a, b}, y, [](const Tensor& dy) -> Gradients { return {dy, dy}; });
  return y;
}

Tensor dropout(Tape& tape, const Tensor& x, const DropoutKey& key) {
  if (key.probability == 0) return x;
  Context& ctx = tape.context();
  const auto apply = [&ctx, key](const Tensor& from, const Tensor& to) {
    ctx.run(kernels::Dropout{.x = from,
                             .y = to,
                             .probability = key.probability,
                             .key = key.key,
                             .site = key.site,
                             .token_begin = key.first_token,
                             .run = from.dim(0) > 0 ? from.dim(0) : 1,
                             .jump = from.dim(0) > 0 ? from.dim(0) : 1});
  };
  Tensor y = ctx.empty_like(x);
  apply(x, y);
  tape.record("dropout", {x}, y, [&ctx, apply](const Tensor& dy) -> Gradients {
    Tensor dx = dy.unique() ? dy : ctx.empty_like(dy);
    apply(dy, dx);
    return {dx};
  });
  return y;
}

}  // namespace trainctl
