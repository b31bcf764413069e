// kernels/swiglu/swiglu_cpu.cpp -- rows over threads.
#include "kernels/swiglu/swiglu_cpu.h"

#include "kernels/common/chunks.h"
#include "kernels/common/math.h"

namespace trainctl::kernels::TRAINCTL_LEVEL {
namespace {

template <class T>
void forward(const SwigluForwardCpu& k) {
#pragma omp parallel for schedule(static) if (k.rows * k.cols > kSerialWork)
  for (int64_t r = 0; r < k.rows; ++r) {
    const T* gate = static_cast<const T*>(k.gate_up) + r * 2 * k.cols;
    const T* up = gate + k.cols;
    T* y = static_cast<T*>(k.y) + r * k.cols;
    sweep(k.cols, [&](int64_t i, auto part) {
      const vf g = load(gate + i, part);
      store(y + i, g * logistic(g) * load(up + i, part), part);
    });
  }
}

// silu'(g) = s + g s (1 - s), s = logistic(g).
template <class T>
void backward(const SwigluBackwardCpu& k) {
#pragma omp parallel for schedule(static) if (k.rows * k.cols > kSerialWork)
  for (int64_t r = 0; r < k.rows; ++r) {
    const T* gate = static_cast<const T*>(k.gate_up) + r * 2 * k.cols;
    const T* up = gate + k.cols;
    const T* dy = static_cast<const T*>(k.dy) + r * k.cols;
    T* dgate = static_cast<T*>(k.dgate_up) + r * 2 * k.cols;
    T* dup = dgate + k.cols;
    sweep(k.cols, [&](int64_t i, auto part) {
      const vf g = load(gate + i, part), u = load(up + i, part), d = load(dy + i, part);
      const vf s = logistic(g), silu = g * s;
      store(dgate + i, d * u * (s + silu * (1.0f - s)), part);
      store(dup + i, d * silu, part);
    });
  }
}

}  // namespace

void swiglu_forward(const SwigluForwardCpu& k) {
  with_storage(k.bf16, [&]<class T>() { forward<T>(k); });
}
void swiglu_backward(const SwigluBackwardCpu& k) {
  with_storage(k.bf16, [&]<class T>() { backward<T>(k); });
}

}  // namespace trainctl::kernels::TRAINCTL_LEVEL
