// kernels/swiglu/swiglu_cpu.h -- arguments of the CPU SwiGLU, unpacked from the contract's views.
#pragma once

#include "kernels/common/level.h"

namespace trainctl::kernels {

struct SwigluForwardCpu {
  const void* gate_up;
  void* y;
  int64_t rows, cols;  // cols = F; a row of gate_up has 2F
  bool bf16;
};
struct SwigluBackwardCpu {
  const void *gate_up, *dy;
  void* dgate_up;
  int64_t rows, cols;
  bool bf16;
};
TRAINCTL_AT_EACH_LEVEL(void swiglu_forward(const SwigluForwardCpu& k);
                       void swiglu_backward(const SwigluBackwardCpu& k);)

}  // namespace trainctl::kernels
