// kernels/gelu/gelu_cpu.h -- arguments of the CPU GELU, unpacked from the contract's views.
#pragma once

#include "kernels/common/level.h"

namespace trainctl::kernels {

struct GeluForwardCpu {
  const void* x;
  void* y;
  int64_t n;
  bool tanh_form, bf16;
};
struct GeluBackwardCpu {
  const void *x, *dy;
  void* dx;
  int64_t n;
  bool tanh_form, bf16;
};
TRAINCTL_AT_EACH_LEVEL(void gelu_forward(const GeluForwardCpu& k); void gelu_backward(const GeluBackwardCpu& k);)

}  // namespace trainctl::kernels
