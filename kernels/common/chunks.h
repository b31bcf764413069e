// kernels/common/chunks.h -- threads over elementwise work, cut at fixed places. For *_cpu.cpp files only (see simd.h).
#pragma once

#include "kernels/common/simd.h"

namespace trainctl::kernels::TRAINCTL_LEVEL {

constexpr int64_t kChunk = 16384;       // elements; a multiple of every vector width
constexpr int64_t kSerialWork = 32768;  // below this many elements threads cost more than they bring

// f(i, Whole or Part) over [0, n).
template <class F>
TRAINCTL_INLINE void over_chunks(int64_t n, F&& f) {
  const int64_t chunks = (n + kChunk - 1) / kChunk;
#pragma omp parallel for schedule(static) if (n > kSerialWork)
  for (int64_t c = 0; c < chunks; ++c) {
    const int64_t begin = c * kChunk;
    sweep(least(kChunk, n - begin), [&](int64_t i, auto part) { f(begin + i, part); });
  }
}

}  // namespace trainctl::kernels::TRAINCTL_LEVEL
