// lib/parallel/sharding.h -- the rules from logical axes to mesh axes, and the boxes they give.
#pragma once

#include "autograd/parameter.h"
#include "base/units.h"

namespace trainctl {

// Units [begin, end) of a logical axis that one tensor rank holds.
//   heads, ffn, vocab: even_split, larger parts first.
//   kv_heads: the key/value heads that the rank's query heads need, so a head may be held by several ranks.
Span64 shard_units(const AxisUse& use, int64_t tensor_parallel, int64_t tensor_rank);

// The shard of `spec` on that rank.
Box shard_box(const ParameterSpec& spec, int64_t tensor_parallel, int64_t tensor_rank);

// How ranks of the tensor group share the gradient of a parameter.
enum class Sharing : uint8_t {
  sharded,      // each element on one rank
  replicated,   // whole on every rank with equal gradients: nothing to do
  partial,      // whole on every rank, each with a part of the gradient: summed
  overlapping,  // kv heads held by several ranks, each with a part: summed over the logical parameter
};
Sharing sharing_of(const ParameterSpec& spec, int64_t tensor_parallel, bool sequence_parallel);

// Logical rows of dimension 0 of this rank's box that no lower tensor rank holds: it counts and writes these.
Span64 owned_rows(const ParameterSpec& spec, int64_t tensor_parallel, int64_t tensor_rank);

}  // namespace trainctl
