// kernels/embedding/embedding_cpu.h -- arguments of the CPU embedding, unpacked from the contract's views.
#pragma once

#include "kernels/common/level.h"

namespace trainctl::kernels {

struct EmbeddingForwardCpu {
  const int32_t* ids;
  const char* weight;
  char* y;
  int64_t tokens, rows, row_begin, row_bytes;
};
struct EmbeddingBackwardCpu {
  const int32_t* ids;
  const void* dy;
  float* dweight;
  int64_t tokens, rows, row_begin, cols;
  bool bf16;
};
TRAINCTL_AT_EACH_LEVEL(void embedding_forward(const EmbeddingForwardCpu& k);
                       void embedding_backward(const EmbeddingBackwardCpu& k);)

}  // namespace trainctl::kernels
