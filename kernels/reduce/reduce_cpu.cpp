// kernels/reduce/reduce_cpu.cpp -- sums in fixed blocks.
#include "kernels/reduce/reduce_cpu.h"

#include "kernels/common/chunks.h"

namespace trainctl::kernels::TRAINCTL_LEVEL {
namespace {

constexpr int64_t kStrip = 256;    // columns a thread takes at a time
constexpr int64_t kRowBlock = 64;  // rows summed before they join the total: errors grow with the blocks, not the rows

template <class T>
void columns(const ColumnSumCpu& k) {
  const int64_t strips = (k.cols + kStrip - 1) / kStrip;
#pragma omp parallel for schedule(static) if (k.rows * k.cols > kSerialWork)
  for (int64_t s = 0; s < strips; ++s) {
    const int64_t begin = s * kStrip, width = least(kStrip, k.cols - begin);
    float total[kStrip] = {};
    for (int64_t r0 = 0; r0 < k.rows; r0 += kRowBlock) {
      float block[kStrip] = {};
      for (int64_t r = r0; r < least(k.rows, r0 + kRowBlock); ++r) {
        const T* x = static_cast<const T*>(k.x) + r * k.stride + begin;
        sweep(width, [&](int64_t i, auto part) { store(block + i, load(block + i, part) + load(x + i, part), part); });
      }
      for (int64_t i = 0; i < width; ++i) total[i] += block[i];
    }
    for (int64_t i = 0; i < width; ++i) k.out[begin + i] += total[i];
  }
}

}  // namespace

void sum_of_squares(const SumOfSquaresCpu& k) {
  const int64_t blocks = (k.n + kChunk - 1) / kChunk;
  double* partial = static_cast<double*>(scratch(ScratchSlot::partial, blocks * 8));
#pragma omp parallel for schedule(static) if (k.n > kSerialWork)
  for (int64_t b = 0; b < blocks; ++b) {
    const float* x = k.x + b * kChunk;
    vd s[4] = {};
    sweep4(least(kChunk, k.n - b * kChunk), [&](int64_t i, auto part, auto u) {
      const vd v = __builtin_convertvector(load(x + i, part), vd);
      s[u.value] += v * v;
    });
    partial[b] = sum((s[0] + s[1]) + (s[2] + s[3]));
  }
  double total = 0;
  for (int64_t b = 0; b < blocks; ++b) total += partial[b];
  *k.out += total;
}

void column_sum(const ColumnSumCpu& k) {
  with_storage(k.bf16, [&]<class T>() { columns<T>(k); });
}

}  // namespace trainctl::kernels::TRAINCTL_LEVEL
