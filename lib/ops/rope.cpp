// lib/ops/rope.cpp -- rotation of query and key heads; its backward is the inverse rotation.
#include "ops/ops.h"

namespace trainctl {
namespace {

void rotate(Context& ctx, const Tensor& qkv, const HeadLayout& l, const Tensor& positions, const RopeTable& table,
            bool inverse) {
  // Query and key heads are neighbours, so one view covers both.
  const Tensor heads = qkv.strided({qkv.dim(0), l.heads + l.kv_heads, l.head_dim}, {l.width(), l.head_dim, 1}, 0);
  ctx.run(kernels::Rope{
      .x = heads, .positions = positions, .cosine = table.cosine, .sine = table.sine, .inverse = inverse});
}

}  // namespace

Tensor rope(Tape& tape, const Tensor& qkv, const HeadLayout& layout, const Tensor& positions, const RopeTable& table) {
  Context& ctx = tape.context();
  Tensor y = ctx.own(qkv);
  rotate(ctx, y, layout, positions, table, false);
  Tensor input;
  input.set_variable(qkv.variable());
  tape.record("rope", {input}, y, [&ctx, layout, positions, table](const Tensor& dy) -> Gradients {
    const Tensor dx = ctx.own(dy);
    rotate(ctx, dx, layout, positions, table, true);
    return {dx};
  });
  return y;
}

}  // namespace trainctl
