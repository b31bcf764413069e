// kernels/rmsnorm/rmsnorm_cpu.cpp -- rows over threads; a row is read from cache after its first pass.
#include "kernels/rmsnorm/rmsnorm_cpu.h"

#include "kernels/common/row_blocks.h"

namespace trainctl::kernels::TRAINCTL_LEVEL {
namespace {

int64_t offset(int64_t row, int64_t heads, const int64_t (&stride)[2]) {
  return (row / heads) * stride[0] + (row % heads) * stride[1];
}

template <class T>
void forward(const RmsNormForwardCpu& k) {
  const T* gain = static_cast<const T*>(k.gain);
  const float share = 1.0f / static_cast<float>(k.cols);
#pragma omp parallel for schedule(static) if (k.rows * k.cols > kSerialWork)
  for (int64_t r = 0; r < k.rows; ++r) {
    const T* x = static_cast<const T*>(k.x) + offset(r, k.heads, k.x_stride);
    T* y = static_cast<T*>(k.y) + offset(r, k.heads, k.y_stride);
    vf q[4] = {};
    sweep4(k.cols, [&](int64_t i, auto part, auto u) {
      const vf v = load(x + i, part);
      q[u.value] += v * v;
    });
    const float rstd = 1.0f / __builtin_sqrtf(sum4(q) * share + k.eps);
    k.rstd[r] = rstd;
    sweep(k.cols, [&](int64_t i, auto part) { store(y + i, load(x + i, part) * rstd * load(gain + i, part), part); });
  }
}

// With g = dy gain and h = x rstd: dx = rstd (g - h mean(g h)).
template <class T>
void backward(const RmsNormBackwardCpu& k) {
  const T* gain = static_cast<const T*>(k.gain);
  const float share = 1.0f / static_cast<float>(k.cols);
  const RowBlocks blocks = row_blocks(k.rows);
  float* partial = scratch_floats(ScratchSlot::partial, blocks.count * k.cols);
#pragma omp parallel for schedule(static) if (k.rows * k.cols > kSerialWork)
  for (int64_t b = 0; b < blocks.count; ++b) {
    float* dgain = partial + b * k.cols;
    sweep(k.cols, [&](int64_t i, auto part) { store(dgain + i, vf{}, part); });
    for (int64_t r = b * blocks.size; r < least(blocks.rows, (b + 1) * blocks.size); ++r) {
      const T* x = static_cast<const T*>(k.x) + offset(r, k.heads, k.x_stride);
      const T* dy = static_cast<const T*>(k.dy) + offset(r, k.heads, k.dy_stride);
      T* dx = static_cast<T*>(k.dx) + offset(r, k.heads, k.dx_stride);
      const float rstd = k.rstd[r];
      vf sgh[4] = {};
      sweep4(k.cols, [&](int64_t i, auto part, auto u) {
        sgh[u.value] += load(dy + i, part) * load(gain + i, part) * (load(x + i, part) * rstd);
      });
      const float mean_gh = sum4(sgh) * share;
      sweep(k.cols, [&](int64_t i, auto part) {
        const vf d = load(dy + i, part), h = load(x + i, part) * rstd;
        store(dgain + i, load(dgain + i, part) + d * h, part);
        store(dx + i, (d * load(gain + i, part) - h * mean_gh) * rstd, part);
      });
    }
  }
  add_block_sums(blocks, partial, k.cols, k.cols, k.dgain);
}

}  // namespace

void rmsnorm_forward(const RmsNormForwardCpu& k) {
  with_storage(k.bf16, [&]<class T>() { forward<T>(k); });
}
void rmsnorm_backward(const RmsNormBackwardCpu& k) {
  with_storage(k.bf16, [&]<class T>() { backward<T>(k); });
}

}  // namespace trainctl::kernels::TRAINCTL_LEVEL
