// kernels/cross_entropy/cross_entropy_cpu.h -- arguments of the CPU cross-entropy, unpacked from the contract's views.
#pragma once

#include "kernels/common/level.h"

namespace trainctl::kernels {

struct CrossEntropyMaxCpu {
  const float* logits;
  float* maximum;
  int64_t rows, cols, stride;
};
struct CrossEntropySumCpu {
  const float* logits;
  const int32_t* labels;
  const float* maximum;
  float *sum, *target;
  int64_t rows, cols, stride, column_begin;
};
struct CrossEntropyGradCpu {
  float* logits;
  const int32_t* labels;
  const float *maximum, *sum;
  uint16_t* dlogits;  // bf16 bits, or null: in place
  int64_t rows, cols, stride, dlogits_stride, column_begin;
  float scale;
};
TRAINCTL_AT_EACH_LEVEL(void cross_entropy_max(const CrossEntropyMaxCpu& k);
                       void cross_entropy_sum(const CrossEntropySumCpu& k);
                       void cross_entropy_grad(const CrossEntropyGradCpu& k);)

}  // namespace trainctl::kernels
