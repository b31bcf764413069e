// kernels/attention/attention_cpu.h -- arguments of the CPU attention, unpacked from the contract's views.
#pragma once

#include "kernels/common/level.h"

namespace trainctl::kernels {

// Strides in elements of batch, position and head; the last dimension's is 1.
struct AttentionStrides {
  int64_t batch, position, head;
};
struct AttentionShape {
  int64_t batch, positions, heads, kv_heads, dim;
  int64_t group, head_offset;
  const int32_t* document_start;  // [batch, positions] or null
  float scale;
  bool bf16;
};
struct AttentionForwardCpu {
  AttentionShape shape;
  const void *q, *k, *v;
  void* out;
  AttentionStrides q_at, k_at, v_at, out_at;
  float* lse;
};
struct AttentionBackwardCpu {
  AttentionShape shape;
  const void *q, *k, *v, *out, *dout;
  void *dq, *dk, *dv;
  AttentionStrides q_at, k_at, v_at, out_at, dout_at, dq_at, dk_at, dv_at;
  const float* lse;
  float* delta;
};
TRAINCTL_AT_EACH_LEVEL(void attention_forward(const AttentionForwardCpu& k);
                       void attention_backward(const AttentionBackwardCpu& k);)

}  // namespace trainctl::kernels
