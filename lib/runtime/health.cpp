// lib/runtime/health.cpp -- see the header. Costs nothing until something is wrong.
#include "runtime/health.h"

#include <fmt/format.h>

#include <cmath>

namespace trainctl {
namespace {

// True when every element is finite: the f64 sum of squares of finite f32 numbers cannot overflow.
bool all_finite(Context& ctx, const Tensor& x) {
  if (x.numel() == 0) return true;
  Tensor wide = x;
  if (x.dtype() != DType::f32) {
    wide = ctx.empty(x.shape(), DType::f32);
    ctx.run(kernels::Cast{.x = x, .y = wide});
  }
  const Tensor sum = ctx.empty({1}, DType::f64, MemoryCategory::other);
  ctx.zero(sum);
  ctx.run(kernels::SumOfSquares{.x = wide.reshape({wide.numel()}), .out = sum});
  double value = 0;
  ctx.device().copy_to_host(&value, sum.data(), sizeof value, ctx.stream());
  ctx.stream().synchronize();
  return std::isfinite(value);
}

std::string first_parameter(ShardedModel& model, const Tensor& flat, std::string_view what) {
  for (const ParameterPtr& p : model.layout.parameters)
    if (!all_finite(*model.context, flat.flat_slice(p->flat_offset, p->box.extent)))
      return fmt::format("{} {}", what, p->spec.name);
  return {};
}

// The lowest rank with a finding tells it to all: its number by a max over (size - rank), its text by a broadcast.
Finding agree(ShardedModel& model, const std::string& mine) {
  Context& ctx = *model.context;
  World& world = *model.world;
  const Tensor flag = ctx.empty({1}, DType::i64, MemoryCategory::other);
  int64_t value = mine.empty() ? 0 : world.size() - world.rank();
  ctx.device().copy_from_host(flag.data(), &value, sizeof value, ctx.stream());
  world.all().all_reduce(flag, Reduce::max, ctx.stream()).wait_on(ctx.stream());
  ctx.device().copy_to_host(&value, flag.data(), sizeof value, ctx.stream());
  ctx.stream().synchronize();
  if (value == 0) return {};
  Finding finding;
  finding.rank = world.size() - static_cast<int>(value);
  constexpr int64_t kLongest = 256;
  const Tensor text = ctx.empty({kLongest}, DType::u8, MemoryCategory::other);
  std::string bytes = mine;
  bytes.resize(static_cast<size_t>(kLongest), '\0');
  ctx.device().copy_from_host(text.data(), bytes.data(), kLongest, ctx.stream());
  world.all().broadcast(text, finding.rank, ctx.stream()).wait_on(ctx.stream());
  ctx.device().copy_to_host(bytes.data(), text.data(), kLongest, ctx.stream());
  ctx.stream().synchronize();
  finding.text = bytes.c_str();
  return finding;
}

}  // namespace

Finding find_non_finite(ShardedModel& model, Executor& executor, const StageProgram& program, const Batches& batches,
                        int micro_batches, PassOptions options) {
  const Finding weight = agree(model, first_parameter(model, model.master, "weight"));
  if (!weight.text.empty()) return weight;

  std::string output;
  options.train = false;
  options.inspect = [&](int micro_batch, const Module& module, const Tensor& y) {
    if (output.empty() && y.dtype() != DType::f64 && !all_finite(*model.context, y))
      output = fmt::format("the output of {} in micro-batch {}", module.name(), micro_batch);
  };
  // A forward pass makes later stages non-finite too, so the first stage with a finding is the origin: each stage looks
  // at what it was sent before it blames itself by telling only outputs of its own modules, and lower ranks speak
  // first.
  executor.run(program, batches, micro_batches, options);
  const Finding forward = agree(model, output);
  if (!forward.text.empty()) return forward;

  const Finding gradient = agree(model, first_parameter(model, model.grads, "the gradient of"));
  if (!gradient.text.empty()) return gradient;
  return {model.world->rank(), "the loss itself (its inputs are finite)"};
}

}  // namespace trainctl
