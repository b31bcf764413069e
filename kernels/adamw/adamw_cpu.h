// kernels/adamw/adamw_cpu.h -- arguments of the CPU AdamW, unpacked from the contract; corrections already in f32.
#pragma once

#include "kernels/common/level.h"

namespace trainctl::kernels {

struct AdamWCpu {
  float *master, *m, *v;
  uint16_t* weight;  // bf16 bits, or null
  const float* grad;
  int64_t n;
  float lr, beta1, rest1, beta2, rest2;  // rest = 1 - beta
  float correction1, correction2;        // 1 / (1 - beta^step)
  float eps, weight_decay, grad_scale;
};
TRAINCTL_AT_EACH_LEVEL(void adamw(const AdamWCpu& k);)

}  // namespace trainctl::kernels
