// kernels/common/row_blocks.h -- sums over rows for parameter gradients, the same bits for any thread count: rows are
// cut into blocks by their number alone, and block sums are added in ascending order. For *_cpu.cpp files only.
#pragma once

#include "kernels/common/chunks.h"

namespace trainctl::kernels::TRAINCTL_LEVEL {

struct RowBlocks {
  int64_t rows, size, count;
};
TRAINCTL_INLINE RowBlocks row_blocks(int64_t rows) {
  const int64_t size = most(16, (rows + 63) / 64);  // at most 64 blocks: bounds the partial sums held
  return {rows, size, (rows + size - 1) / size};
}

// out[c] += sum over blocks of partial[block * stride + c].
TRAINCTL_INLINE void add_block_sums(const RowBlocks& blocks, const float* partial, int64_t stride, int64_t cols,
                                    float* out) {
  sweep(cols, [&](int64_t c, auto part) {
    vf s = load(partial + c, part);
    for (int64_t b = 1; b < blocks.count; ++b) s += load(partial + b * stride + c, part);
    store(out + c, load(out + c, part) + s, part);
  });
}

}  // namespace trainctl::kernels::TRAINCTL_LEVEL
