// kernels/rmsnorm/rmsnorm_cpu.h -- arguments of the CPU RMS norm, unpacked from the contract's views.
#pragma once

#include "kernels/common/level.h"

namespace trainctl::kernels {

// Row r lies at (r / heads) stride[0] + (r % heads) stride[1]; heads is 1 for a plain [R, C].
struct RmsNormForwardCpu {
  const void *x, *gain;
  void* y;
  float* rstd;
  int64_t rows, heads, cols, x_stride[2], y_stride[2];
  float eps;
  bool bf16;
};
struct RmsNormBackwardCpu {
  const void *x, *gain, *dy;
  const float* rstd;
  void* dx;
  float* dgain;
  int64_t rows, heads, cols, x_stride[2], dy_stride[2], dx_stride[2];
  bool bf16;
};
TRAINCTL_AT_EACH_LEVEL(void rmsnorm_forward(const RmsNormForwardCpu& k);
                       void rmsnorm_backward(const RmsNormBackwardCpu& k);)

}  // namespace trainctl::kernels
