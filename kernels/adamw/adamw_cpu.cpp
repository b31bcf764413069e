// kernels/adamw/adamw_cpu.cpp -- one pass over master, gradient and both moments.
#include "kernels/adamw/adamw_cpu.h"

#include "kernels/common/chunks.h"

namespace trainctl::kernels::TRAINCTL_LEVEL {
namespace {

template <bool kWeight>
void update(const AdamWCpu& k) {
  Bf16* weight = reinterpret_cast<Bf16*>(k.weight);
  over_chunks(k.n, [=](int64_t i, auto part) {
    const vf g = load(k.grad + i, part) * k.grad_scale;
    const vf m = load(k.m + i, part) * k.beta1 + g * k.rest1;
    const vf v = load(k.v + i, part) * k.beta2 + (g * g) * k.rest2;
    const vf w = load(k.master + i, part);
    const vf step = (m * k.correction1) / (sqrt(v * k.correction2) + k.eps) + w * k.weight_decay;
    const vf updated = w - step * k.lr;
    store(k.m + i, m, part);
    store(k.v + i, v, part);
    store(k.master + i, updated, part);
    if constexpr (kWeight) store(weight + i, updated, part);
  });
}

}  // namespace

void adamw(const AdamWCpu& k) {
  if (k.weight)
    update<true>(k);
  else
    update<false>(k);
}

}  // namespace trainctl::kernels::TRAINCTL_LEVEL
