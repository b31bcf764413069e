// kernels/reduce/reduce_cpu.h -- arguments of the CPU sums, unpacked from the contract's views.
#pragma once

#include "kernels/common/level.h"

namespace trainctl::kernels {

struct SumOfSquaresCpu {
  const float* x;
  int64_t n;
  double* out;
};
struct ColumnSumCpu {
  const void* x;
  int64_t rows, cols, stride;
  float* out;
  bool bf16;
};
TRAINCTL_AT_EACH_LEVEL(void sum_of_squares(const SumOfSquaresCpu& k); void column_sum(const ColumnSumCpu& k);)

}  // namespace trainctl::kernels
