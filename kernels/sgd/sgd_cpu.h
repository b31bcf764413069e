// kernels/sgd/sgd_cpu.h -- arguments of the CPU SGD, unpacked from the contract's views.
#pragma once

#include "kernels/common/level.h"

namespace trainctl::kernels {

struct SgdCpu {
  float *master, *buffer;  // buffer: momentum, or null
  uint16_t* weight;        // bf16 bits, or null
  const float* grad;
  int64_t n;
  float lr, momentum, weight_decay, grad_scale;
};
TRAINCTL_AT_EACH_LEVEL(void sgd(const SgdCpu& k);)

}  // namespace trainctl::kernels
