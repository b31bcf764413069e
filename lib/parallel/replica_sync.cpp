// lib/parallel/replica_sync.cpp -- partial parameters packed into one message; overlapping heads summed in a buffer of
// the logical shape, where each rank adds zeros for the heads it does not hold.
#include "parallel/replica_sync.h"

#include <algorithm>

#include "parallel/comm_ops.h"
#include "parallel/sharding.h"

namespace trainctl {

ReplicaSync::ReplicaSync(const std::vector<ParameterPtr>& parameters, World& world, bool sequence_parallel,
                         ParameterPtr tied)
    : tied_(std::move(tied)), world_(&world) {
  const int64_t tensor_parallel = world.group(Axis::tensor).size();
  for (const ParameterPtr& p : parameters) {
    const Sharing sharing = sharing_of(p->spec, tensor_parallel, sequence_parallel);
    if (sharing == Sharing::partial) partial_.push_back(p);
    if (sharing == Sharing::overlapping) overlapping_.push_back(p);
  }
}

void ReplicaSync::run(Context& ctx) const {
  if (!world_) return;
  ProcessGroup& tensor = world_->group(Axis::tensor);
  if (!partial_.empty() || !overlapping_.empty()) {
    ctx.place("sum replicated gradients");
    std::vector<Tensor> buffers;
    for (const ParameterPtr& p : partial_) buffers.push_back(p->grad);
    std::vector<Tensor> wide;
    for (const ParameterPtr& p : overlapping_) {
      const int64_t row = p->grad.numel() / std::max<int64_t>(1, p->box.extent[0]);
      Tensor logical = ctx.empty({p->spec.shape.numel()}, DType::f32, MemoryCategory::communication);
      ctx.zero(logical);
      ctx.copy(p->grad.reshape({p->grad.numel()}), logical.flat_slice(p->box.offset[0] * row, {p->grad.numel()}));
      wide.push_back(logical);
      buffers.push_back(std::move(logical));
    }
    all_reduce_packed(ctx, buffers, tensor);
    for (size_t i = 0; i < wide.size(); ++i) {
      const ParameterPtr& p = overlapping_[i];
      const int64_t row = p->grad.numel() / std::max<int64_t>(1, p->box.extent[0]);
      ctx.copy(wide[i].flat_slice(p->box.offset[0] * row, {p->grad.numel()}), p->grad.reshape({p->grad.numel()}));
    }
  }
  if (tied_) {
    ctx.place("sum tied embedding gradients");
    world_->embedding_ends().all_reduce(tied_->grad, Reduce::sum, ctx.stream()).wait_on(ctx.stream());
  }
}

}  // namespace trainctl
