// kernels/cast/cast_cpu.h -- arguments of the CPU cast, unpacked from the contract's views.
#pragma once

#include "kernels/common/level.h"

namespace trainctl::kernels {

struct CastCpu {
  const void* x;
  void* y;
  int64_t rows, cols, x_stride, y_stride;  // strides of rows, in elements
  bool x_bf16, y_bf16;
};
TRAINCTL_AT_EACH_LEVEL(void cast(const CastCpu& k);)

}  // namespace trainctl::kernels
