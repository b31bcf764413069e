// kernels/residual/residual_cpu.h -- arguments of the CPU add and dropout, unpacked from the contract's views.
#pragma once

#include "kernels/common/level.h"

namespace trainctl::kernels {

struct AddCpu {
  const void *a, *b;
  void* y;
  int64_t n;
  bool bf16;
};
struct DropoutCpu {
  const void* x;
  void* y;
  int64_t rows, channels;
  uint64_t key, site;
  uint64_t threshold;  // round(p 2^32): up to 2^32
  float scale;         // 1 / (1 - p)
  int64_t token_begin, run, jump;
  bool bf16;
};
TRAINCTL_AT_EACH_LEVEL(void add(const AddCpu& k); void dropout(const DropoutCpu& k);)

}  // namespace trainctl::kernels
