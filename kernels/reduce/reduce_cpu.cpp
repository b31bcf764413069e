// kernels/reduce/reduce_cpu.cpp -- sums in fixed blocks.
#include "kernels/reduce/reduce_cpu.h"

#include "kernels/common/row_blocks.h"

namespace trainctl::kernels::TRAINCTL_LEVEL {
namespace {

template <class T>
void columns(const ColumnSumCpu& k) {
  const RowBlocks blocks = row_blocks(k.rows);
  float* partial = scratch_floats(ScratchSlot::partial, blocks.count * k.cols);
#pragma omp parallel for schedule(static) if (k.rows * k.cols > kSerialWork)
  for (int64_t b = 0; b < blocks.count; ++b) {
    float* block = partial + b * k.cols;
    const T* x = static_cast<const T*>(k.x) + b * blocks.size * k.stride;
    sweep(k.cols, [&](int64_t i, auto part) { store(block + i, load(x + i, part), part); });
    for (int64_t r = 1; r < least(blocks.size, blocks.rows - b * blocks.size); ++r)
      sweep(k.cols, [&](int64_t i, auto part) {
        store(block + i, load(block + i, part) + load(x + r * k.stride + i, part), part);
      });
  }
  add_block_sums(blocks, partial, k.cols, k.cols, k.out);
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
  if (k.rows == 0) return;
  with_storage(k.bf16, [&]<class T>() { columns<T>(k); });
}

}  // namespace trainctl::kernels::TRAINCTL_LEVEL
