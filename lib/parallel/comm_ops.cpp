// lib/parallel/comm_ops.cpp -- see the header.
#include "parallel/comm_ops.h"

#include "base/units.h"

namespace trainctl {
namespace {

Tensor summed(Context& ctx, const Tensor& x, ProcessGroup& group) {
  Tensor y = ctx.own(x);
  group.all_reduce(y, Reduce::sum, ctx.stream()).wait_on(ctx.stream());
  return y;
}

Tensor scattered(Context& ctx, const Tensor& x, ProcessGroup& group) {
  const Span64 rows = even_split(x.dim(0), group.size(), group.rank());
  Tensor y = ctx.empty({rows.size(), x.dim(1)}, x.dtype());
  group.reduce_scatter(x, y, Reduce::sum, ctx.stream()).wait_on(ctx.stream());
  return y;
}

Tensor gathered(Context& ctx, const Tensor& x, int64_t total_rows, ProcessGroup& group) {
  Tensor y = ctx.empty({total_rows, x.dim(1)}, x.dtype());
  group.all_gather(x, y, ctx.stream()).wait_on(ctx.stream());
  return y;
}

Tensor variable_of(const Tensor& x) {  // names the tape's input without holding its bytes
  Tensor t;
  t.set_variable(x.variable());
  return t;
}

}  // namespace

Tensor all_reduce_forward(Tape& tape, const Tensor& x, ProcessGroup& group) {
  Tensor y = summed(tape.context(), x, group);
  tape.record("all_reduce", {variable_of(x)}, y, [](const Tensor& dy) -> Gradients { return {dy}; });
  return y;
}

Tensor all_reduce_backward(Tape& tape, const Tensor& x, ProcessGroup& group) {
  Context& ctx = tape.context();
  Tensor y = x;
  tape.record("identity", {variable_of(x)}, y,
              [&ctx, &group](const Tensor& dy) -> Gradients { return {summed(ctx, dy, group)}; });
  return y;
}

Tensor reduce_scatter_rows(Tape& tape, const Tensor& x, ProcessGroup& group) {
  Context& ctx = tape.context();
  const int64_t total = x.dim(0);
  Tensor y = scattered(ctx, x, group);
  tape.record("reduce_scatter", {variable_of(x)}, y,
              [&ctx, &group, total](const Tensor& dy) -> Gradients { return {gathered(ctx, dy, total, group)}; });
  return y;
}

Tensor all_gather_rows(Tape& tape, const Tensor& x, int64_t total_rows, ProcessGroup& group) {
  Context& ctx = tape.context();
  Tensor y = gathered(ctx, x, total_rows, group);
  tape.record("all_gather", {variable_of(x)}, y,
              [&ctx, &group](const Tensor& dy) -> Gradients { return {scattered(ctx, dy, group)}; });
  return y;
}

void all_reduce_packed(Context& ctx, const std::vector<Tensor>& buffers, ProcessGroup& group) {
  if (group.size() == 1 || buffers.empty()) return;
  int64_t total = 0;
  for (const Tensor& b : buffers) total += b.numel();
  const Tensor packed = ctx.empty({total}, DType::f32, MemoryCategory::communication);
  const auto each = [&](const auto& f) {
    int64_t at = 0;
    for (const Tensor& b : buffers) {
      f(b.reshape({b.numel()}), packed.flat_slice(at, {b.numel()}));
      at += b.numel();
    }
  };
  each([&](const Tensor& b, const Tensor& slot) { ctx.copy(b, slot); });
  group.all_reduce(packed, Reduce::sum, ctx.stream()).wait_on(ctx.stream());
  each([&](const Tensor& b, const Tensor& slot) { ctx.copy(slot, b); });
}

}  // namespace trainctl
