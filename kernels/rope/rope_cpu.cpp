// kernels/rope/rope_cpu.cpp -- tokens over threads, pairs over lanes.
#include "kernels/rope/rope_cpu.h"

#include "kernels/common/chunks.h"

namespace trainctl::kernels::TRAINCTL_LEVEL {
namespace {

template <class T>
void rotate(const RopeCpu& k) {
#pragma omp parallel for schedule(static) if (k.tokens * k.heads * k.half > kSerialWork)
  for (int64_t t = 0; t < k.tokens; ++t) {
    const float* cosine = k.cosine + k.positions[t] * k.table_stride;
    const float* sine = k.sine + k.positions[t] * k.table_stride;
    for (int64_t h = 0; h < k.heads; ++h) {
      T* low = static_cast<T*>(k.x) + t * k.token_stride + h * k.head_stride;
      T* high = low + k.half;
      sweep(k.half, [&](int64_t j, auto part) {
        const vf c = load(cosine + j, part), s = load(sine + j, part) * k.direction;
        const vf a = load(low + j, part), b = load(high + j, part);
        store(low + j, a * c - b * s, part);
        store(high + j, b * c + a * s, part);
      });
    }
  }
}

}  // namespace

void rope(const RopeCpu& k) {
  with_storage(k.bf16, [&]<class T>() { rotate<T>(k); });
}

}  // namespace trainctl::kernels::TRAINCTL_LEVEL
