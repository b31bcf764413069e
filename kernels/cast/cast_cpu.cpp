// kernels/cast/cast_cpu.cpp -- dtype conversion on vectors.
#include "kernels/cast/cast_cpu.h"

#include "kernels/common/chunks.h"

namespace trainctl::kernels::TRAINCTL_LEVEL {
namespace {

template <class X, class Y>
void convert(const CastCpu& k) {
  const X* x = static_cast<const X*>(k.x);
  Y* y = static_cast<Y*>(k.y);
  if (k.rows == 1) {
    over_chunks(k.cols, [&](int64_t i, auto part) { store(y + i, load(x + i, part), part); });
    return;
  }
#pragma omp parallel for schedule(static) if (k.rows * k.cols > kSerialWork)
  for (int64_t r = 0; r < k.rows; ++r)
    sweep(k.cols,
          [&](int64_t i, auto part) { store(y + r * k.y_stride + i, load(x + r * k.x_stride + i, part), part); });
}

}  // namespace

void cast(const CastCpu& k) {
  with_storage(k.x_bf16, [&]<class X>() { with_storage(k.y_bf16, [&]<class Y>() { convert<X, Y>(k); }); });
}

}  // namespace trainctl::kernels::TRAINCTL_LEVEL
