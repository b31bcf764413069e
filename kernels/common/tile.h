// kernels/common/tile.h -- small matrix products held in registers, and transposes. For *_cpu.cpp files only (simd.h).
#pragma once

#include "kernels/common/simd.h"

namespace trainctl::kernels::TRAINCTL_LEVEL {

// A tile of 6 rows and kTileVectors vectors of columns fills the registers: 24 accumulators of 32, or 12 of 16.
constexpr int kTileRows = 6;
constexpr int kTileVectors = kLanes == 16 ? 4 : 2;

template <int kRows, int kVectors, bool kAccumulate>
TRAINCTL_INLINE void tile(int64_t depth, const float* a, int64_t a_m, int64_t a_k, const float* b, int64_t b_k,
                          float* c, int64_t c_m) {
  vf sum[kRows][kVectors] = {};
  if constexpr (kAccumulate) {
#pragma GCC unroll 8
    for (int m = 0; m < kRows; ++m)
#pragma GCC unroll 8
      for (int n = 0; n < kVectors; ++n) sum[m][n] = load(c + m * c_m + n * kLanes, Whole{});
  }
  for (int64_t k = 0; k < depth; ++k) {
    vf row[kVectors];
#pragma GCC unroll 8
    for (int n = 0; n < kVectors; ++n) row[n] = load(b + n * kLanes, Whole{});
#pragma GCC unroll 8
    for (int m = 0; m < kRows; ++m) {
      const vf left = set1(a[m * a_m]);
#pragma GCC unroll 8
      for (int n = 0; n < kVectors; ++n) sum[m][n] += left * row[n];
    }
    a += a_k;
    b += b_k;
  }
#pragma GCC unroll 8
  for (int m = 0; m < kRows; ++m)
#pragma GCC unroll 8
    for (int n = 0; n < kVectors; ++n) store(c + m * c_m + n * kLanes, sum[m][n], Whole{});
}

template <int kVectors, bool kAccumulate>
void tile_strip(int64_t rows, int64_t depth, const float* a, int64_t a_m, int64_t a_k, const float* b, int64_t b_k,
                float* c, int64_t c_m) {
  for (; rows >= kTileRows; rows -= kTileRows, a += kTileRows * a_m, c += kTileRows * c_m)
    tile<kTileRows, kVectors, kAccumulate>(depth, a, a_m, a_k, b, b_k, c, c_m);
  switch (rows) {
    case 5:
      return tile<5, kVectors, kAccumulate>(depth, a, a_m, a_k, b, b_k, c, c_m);
    case 4:
      return tile<4, kVectors, kAccumulate>(depth, a, a_m, a_k, b, b_k, c, c_m);
    case 3:
      return tile<3, kVectors, kAccumulate>(depth, a, a_m, a_k, b, b_k, c, c_m);
    case 2:
      return tile<2, kVectors, kAccumulate>(depth, a, a_m, a_k, b, b_k, c, c_m);
    case 1:
      return tile<1, kVectors, kAccumulate>(depth, a, a_m, a_k, b, b_k, c, c_m);
    default:
      return;
  }
}

// c[m, n] = (or +=) sum_k a[m a_m + k a_k] b[k b_k + n]; cols is a multiple of kLanes. Each element is summed in
// ascending k.
template <bool kAccumulate>
TRAINCTL_INLINE void block_product(int64_t rows, int64_t cols, int64_t depth, const float* a, int64_t a_m, int64_t a_k,
                                   const float* b, int64_t b_k, float* c, int64_t c_m) {
  constexpr int64_t step = kTileVectors * kLanes;
  int64_t n = 0;
  for (; n + step <= cols; n += step)
    tile_strip<kTileVectors, kAccumulate>(rows, depth, a, a_m, a_k, b + n, b_k, c + n, c_m);
  const int64_t rest = (cols - n) / kLanes;
  if (rest == 1) tile_strip<1, kAccumulate>(rows, depth, a, a_m, a_k, b + n, b_k, c + n, c_m);
  if constexpr (kTileVectors > 2) {
    if (rest == 2) tile_strip<2, kAccumulate>(rows, depth, a, a_m, a_k, b + n, b_k, c + n, c_m);
    if (rest == 3) tile_strip<3, kAccumulate>(rows, depth, a, a_m, a_k, b + n, b_k, c + n, c_m);
  }
}

// Transposes kLanes vectors in place: log2(kLanes) perfect shuffles of rows i and i + kLanes / 2.
TRAINCTL_INLINE void transpose(vf (&x)[kLanes]) {
  vi low{}, high{};
  for (int i = 0; i < kLanes; ++i) {
    low[i] = i / 2 + (i % 2) * kLanes;
    high[i] = low[i] + kLanes / 2;
  }
#pragma GCC unroll 4
  for (int stage = 1; stage < kLanes; stage *= 2) {
    vf y[kLanes];
#pragma GCC unroll 16
    for (int i = 0; i < kLanes / 2; ++i) {
      y[2 * i] = __builtin_shuffle(x[i], x[i + kLanes / 2], low);
      y[2 * i + 1] = __builtin_shuffle(x[i], x[i + kLanes / 2], high);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) x[i] = y[i];
  }
}

}  // namespace trainctl::kernels::TRAINCTL_LEVEL
