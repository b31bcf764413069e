// lib/parallel/sharding.cpp -- the axis rules of tensor parallelism.
#include "parallel/sharding.h"

#include <algorithm>

namespace trainctl {
namespace {

int sharded_dim(const ParameterSpec& spec) {
  for (int d = 0; d < spec.shape.rank(); ++d)
    if (spec.axes[static_cast<size_t>(d)].axis != LogicalAxis::none) return d;
  return -1;
}

}  // namespace

Span64 shard_units(const AxisUse& use, int64_t tensor_parallel, int64_t tensor_rank) {
  if (use.axis == LogicalAxis::none) return {0, use.count};
  if (use.axis != LogicalAxis::kv_heads) return even_split(use.count, tensor_parallel, tensor_rank);
  const Span64 queries = even_split(use.count * use.group, tensor_parallel, tensor_rank);
  if (queries.size() == 0) return {queries.begin / use.group, queries.begin / use.group};
  return {queries.begin / use.group, ceil_div(queries.end, use.group)};
}

Box shard_box(const ParameterSpec& spec, int64_t tensor_parallel, int64_t tensor_rank) {
  Box box{spec.shape, spec.shape};
  for (int d = 0; d < spec.shape.rank(); ++d) {
    const AxisUse& use = spec.axes[static_cast<size_t>(d)];
    box.offset[d] = 0;
    if (use.axis == LogicalAxis::none) continue;
    const Span64 units = shard_units(use, tensor_parallel, tensor_rank);
    box.offset[d] = units.begin * use.unit;
    box.extent[d] = units.size() * use.unit;
  }
  return box;
}

Sharing sharing_of(const ParameterSpec& spec, int64_t tensor_parallel, bool sequence_parallel) {
  if (tensor_parallel == 1) return Sharing::replicated;
  const int dim = sharded_dim(spec);
  if (dim < 0) return spec.inside_region || sequence_parallel ? Sharing::partial : Sharing::replicated;
  const AxisUse& use = spec.axes[static_cast<size_t>(dim)];
  if (use.axis != LogicalAxis::kv_heads) return Sharing::sharded;
  for (int64_t r = 1; r < tensor_parallel; ++r)
    if (shard_units(use, tensor_parallel, r).begin < shard_units(use, tensor_parallel, r - 1).end)
      return Sharing::overlapping;
  return Sharing::sharded;
}

Span64 owned_rows(const ParameterSpec& spec, int64_t tensor_parallel, int64_t tensor_rank) {
  const int dim = sharded_dim(spec);
  if (dim < 0) return {0, tensor_rank == 0 ? spec.shape[0] : 0};
  const AxisUse& use = spec.axes[static_cast<size_t>(dim)];
  if (dim != 0) return {0, spec.shape[0]};  // cut along columns: all rows, other columns
  Span64 units = shard_units(use, tensor_parallel, tensor_rank);
  if (tensor_rank > 0)
    units.begin = std::min(units.end, std::max(units.begin, shard_units(use, tensor_parallel, tensor_rank - 1).end));
  return {units.begin * use.unit, units.end * use.unit};
}

}  // namespace trainctl
