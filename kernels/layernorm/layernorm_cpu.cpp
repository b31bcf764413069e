// kernels/layernorm/layernorm_cpu.cpp -- rows over threads; a row is read from cache after its first pass.
#include "kernels/layernorm/layernorm_cpu.h"

#include "kernels/common/row_blocks.h"

namespace trainctl::kernels::TRAINCTL_LEVEL {
namespace {

template <class T>
void forward(const LayerNormForwardCpu& k) {
  const T* gain = static_cast<const T*>(k.gain);
  const T* bias = static_cast<const T*>(k.bias);
  const float share = 1.0f / static_cast<float>(k.cols);
#pragma omp parallel for schedule(static) if (k.rows * k.cols > kSerialWork)
  for (int64_t r = 0; r < k.rows; ++r) {
    const T* x = static_cast<const T*>(k.x) + r * k.x_stride;
    T* y = static_cast<T*>(k.y) + r * k.y_stride;
    vf s[4] = {};
    sweep4(k.cols, [&](int64_t i, auto part, auto u) { s[u.value] += load(x + i, part); });
    const float mean = sum4(s) * share;
    vf q[4] = {};
    sweep4(k.cols, [&](int64_t i, auto part, auto u) {
      const vf d = fill_rest(load(x + i, part) - mean, 0.0f, part);
      q[u.value] += d * d;
    });
    const float rstd = 1.0f / __builtin_sqrtf(sum4(q) * share + k.eps);
    k.mean[r] = mean;
    k.rstd[r] = rstd;
    sweep(k.cols, [&](int64_t i, auto part) {
      store(y + i, (load(x + i, part) - mean) * rstd * load(gain + i, part) + load(bias + i, part), part);
    });
  }
}

// With g = dy gain and h = (x - mean) rstd: dx = rstd (g - mean(g) - h mean(g h)).
template <class T>
void backward(const LayerNormBackwardCpu& k) {
  const T* gain = static_cast<const T*>(k.gain);
  const float share = 1.0f / static_cast<float>(k.cols);
  const RowBlocks blocks = row_blocks(k.rows);
  float* partial = scratch_floats(ScratchSlot::partial, blocks.count * 2 * k.cols);
#pragma omp parallel for schedule(static) if (k.rows * k.cols > kSerialWork)
  for (int64_t b = 0; b < blocks.count; ++b) {
    float* dgain = partial + b * 2 * k.cols;
    float* dbias = dgain + k.cols;
    sweep(2 * k.cols, [&](int64_t i, auto part) { store(dgain + i, vf{}, part); });
    for (int64_t r = b * blocks.size; r < least(blocks.rows, (b + 1) * blocks.size); ++r) {
      const T* x = static_cast<const T*>(k.x) + r * k.x_stride;
      const T* dy = static_cast<const T*>(k.dy) + r * k.dy_stride;
      T* dx = static_cast<T*>(k.dx) + r * k.dx_stride;
      const float mean = k.mean[r], rstd = k.rstd[r];
      vf sg[4] = {}, sgh[4] = {};
      sweep4(k.cols, [&](int64_t i, auto part, auto u) {
        const vf g = load(dy + i, part) * load(gain + i, part);
        sg[u.value] += g;
        sgh[u.value] += g * ((load(x + i, part) - mean) * rstd);  // lanes past the end have g == 0
      });
      const float mean_g = sum4(sg) * share, mean_gh = sum4(sgh) * share;
      sweep(k.cols, [&](int64_t i, auto part) {
        const vf d = load(dy + i, part), h = (load(x + i, part) - mean) * rstd;
        store(dgain + i, load(dgain + i, part) + d * h, part);
        store(dbias + i, load(dbias + i, part) + d, part);
        store(dx + i, (d * load(gain + i, part) - mean_g - h * mean_gh) * rstd, part);
      });
    }
  }
  add_block_sums(blocks, partial, 2 * k.cols, k.cols, k.dgain);
  add_block_sums(blocks, partial + k.cols, 2 * k.cols, k.cols, k.dbias);
}

}  // namespace

void layernorm_forward(const LayerNormForwardCpu& k) {
  with_storage(k.bf16, [&]<class T>() { forward<T>(k); });
}
void layernorm_backward(const LayerNormBackwardCpu& k) {
  with_storage(k.bf16, [&]<class T>() { backward<T>(k); });
}

}  // namespace trainctl::kernels::TRAINCTL_LEVEL
