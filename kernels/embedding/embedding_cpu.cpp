// kernels/embedding/embedding_cpu.cpp -- forward: tokens over threads; backward: columns over threads, so that each
// row's sum runs in ascending token order whatever the number of threads.
#include "kernels/embedding/embedding_cpu.h"

#include "kernels/common/chunks.h"

namespace trainctl::kernels::TRAINCTL_LEVEL {
namespace {

constexpr int64_t kStrip = 128;

template <class T>
void backward(const EmbeddingBackwardCpu& k) {
  const int64_t strips = (k.cols + kStrip - 1) / kStrip;
#pragma omp parallel for schedule(static) if (k.tokens * k.cols > kSerialWork)
  for (int64_t s = 0; s < strips; ++s) {
    const int64_t begin = s * kStrip, width = least(kStrip, k.cols - begin);
    for (int64_t t = 0; t < k.tokens; ++t) {
      const int64_t row = k.ids[t] - k.row_begin;
      if (row < 0 || row >= k.rows) continue;
      const T* dy = static_cast<const T*>(k.dy) + t * k.cols + begin;
      float* dweight = k.dweight + row * k.cols + begin;
      sweep(width,
            [&](int64_t i, auto part) { store(dweight + i, load(dweight + i, part) + load(dy + i, part), part); });
    }
  }
}

}  // namespace

void embedding_forward(const EmbeddingForwardCpu& k) {
#pragma omp parallel for schedule(static) if (k.tokens * k.row_bytes > 4 * kSerialWork)
  for (int64_t t = 0; t < k.tokens; ++t) {
    const int64_t row = k.ids[t] - k.row_begin;
    char* y = k.y + t * k.row_bytes;
    if (row >= 0 && row < k.rows)
      __builtin_memcpy(y, k.weight + row * k.row_bytes, static_cast<uint64_t>(k.row_bytes));
    else
      __builtin_memset(y, 0, static_cast<uint64_t>(k.row_bytes));
  }
}

void embedding_backward(const EmbeddingBackwardCpu& k) {
  with_storage(k.bf16, [&]<class T>() { backward<T>(k); });
}

}  // namespace trainctl::kernels::TRAINCTL_LEVEL
