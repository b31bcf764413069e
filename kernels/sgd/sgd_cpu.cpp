// kernels/sgd/sgd_cpu.cpp -- one pass over master, gradient and momentum.
#include "kernels/sgd/sgd_cpu.h"

#include "kernels/common/chunks.h"

namespace trainctl::kernels::TRAINCTL_LEVEL {
namespace {

template <bool kBuffer, bool kWeight>
void update(const SgdCpu& k) {
  Bf16* weight = reinterpret_cast<Bf16*>(k.weight);
  over_chunks(k.n, [=](int64_t i, auto part) {
    const vf w = load(k.master + i, part);
    vf b = load(k.grad + i, part) * k.grad_scale + w * k.weight_decay;
    if constexpr (kBuffer) {
      b = load(k.buffer + i, part) * k.momentum + b;
      store(k.buffer + i, b, part);
    }
    const vf updated = w - b * k.lr;
    store(k.master + i, updated, part);
    if constexpr (kWeight) store(weight + i, updated, part);
  });
}

}  // namespace

void sgd(const SgdCpu& k) {
  if (k.buffer)
    k.weight ? update<true, true>(k) : update<true, false>(k);
  else
    k.weight ? update<false, true>(k) : update<false, false>(k);
}

}  // namespace trainctl::kernels::TRAINCTL_LEVEL
