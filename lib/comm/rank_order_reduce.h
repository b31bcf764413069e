// lib/comm/rank_order_reduce.h -- the reduction at the heart of all_reduce and reduce_scatter.
#pragma once

#include <cstdint>
#include <span>

#include "comm/collectives.h"

namespace trainctl {

// out[i] = parts[0][i] op parts[1][i] op ... , from left to right, so that every rank gets the same bits. bf16 is
// accumulated in f32 and rounded once; integers wrap; a NaN in any part gives NaN, for sum and max. `out` may be one of
// the parts. Every dtype.
void reduce_in_rank_order(DType dtype, Reduce reduce, std::span<const void* const> parts, void* out, int64_t elements);

}  // namespace trainctl
