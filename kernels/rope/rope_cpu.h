// kernels/rope/rope_cpu.h -- arguments of the CPU rotary embedding, unpacked from the contract's views.
#pragma once

#include "kernels/common/level.h"

namespace trainctl::kernels {

struct RopeCpu {
  void* x;
  const int32_t* positions;
  const float *cosine, *sine;
  int64_t tokens, heads, half, token_stride, head_stride, table_stride;
  float direction;  // 1 forward, -1 back
  bool bf16;
};
TRAINCTL_AT_EACH_LEVEL(void rope(const RopeCpu& k);)

}  // namespace trainctl::kernels
