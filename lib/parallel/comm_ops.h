// lib/parallel/comm_ops.h -- collectives on the tape. Conjugate pairs (Megatron-LM 2019, sec. 3; Korthikanti 2022):
// all_reduce forward with identity backward, and the reverse; reduce_scatter with all_gather, and the reverse.
#pragma once

#include "autograd/tape.h"
#include "comm/process_group.h"

namespace trainctl {

// x [T, D] partial sums -> their sum on every rank; in place when nobody else holds x. Backward: identity.
Tensor all_reduce_forward(Tape& tape, const Tensor& x, ProcessGroup& group);
// Identity forward; the gradient is summed over the group.
Tensor all_reduce_backward(Tape& tape, const Tensor& x, ProcessGroup& group);
// Partial sums [T, D] -> this rank's rows of the sum, [even_split(T), D]. Backward: all_gather.
Tensor reduce_scatter_rows(Tape& tape, const Tensor& x, ProcessGroup& group);
// [even_split(T), D] -> [T, D]. Backward: reduce_scatter.
Tensor all_gather_rows(Tape& tape, const Tensor& x, int64_t total_rows, ProcessGroup& group);

// Sums f32 buffers over the group as one message: packs, reduces, unpacks.
void all_reduce_packed(Context& context, const std::vector<Tensor>& buffers, ProcessGroup& group);

}  // namespace trainctl
