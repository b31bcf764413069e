// kernels/layernorm/layernorm_cpu.h -- arguments of the CPU layer norm, unpacked from the contract's views.
#pragma once

#include "kernels/common/level.h"

namespace trainctl::kernels {

struct LayerNormForwardCpu {
  const void *x, *gain, *bias;
  void* y;
  float *mean, *rstd;
  int64_t rows, cols, x_stride, y_stride;
  float eps;
  bool bf16;
};
struct LayerNormBackwardCpu {
  const void *x, *gain, *dy;
  const float *mean, *rstd;
  void* dx;
  float *dgain, *dbias;
  int64_t rows, cols, x_stride, dy_stride, dx_stride;
  bool bf16;
};
TRAINCTL_AT_EACH_LEVEL(void layernorm_forward(const LayerNormForwardCpu& k);
                       void layernorm_backward(const LayerNormBackwardCpu& k);)

}  // namespace trainctl::kernels
