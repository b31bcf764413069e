// kernels/cross_entropy/cross_entropy_cpu.cpp -- rows over threads.
#include "kernels/cross_entropy/cross_entropy_cpu.h"

#include "kernels/common/chunks.h"
#include "kernels/common/math.h"

namespace trainctl::kernels::TRAINCTL_LEVEL {
namespace {

const float kInfinity = __builtin_inff();

template <class T>
void gradient(const CrossEntropyGradCpu& k, T* out, int64_t out_stride) {
#pragma omp parallel for schedule(static) if (k.rows * k.cols > kSerialWork)
  for (int64_t r = 0; r < k.rows; ++r) {
    const float* x = k.logits + r * k.stride;
    T* d = out + r * out_stride;
    if (k.labels[r] < 0) {
      sweep(k.cols, [&](int64_t i, auto part) { store(d + i, vf{}, part); });
      continue;
    }
    const float maximum = k.maximum[r], factor = k.scale / k.sum[r];
    const int64_t label = k.labels[r] - k.column_begin;
    const bool here = label >= 0 && label < k.cols;
    const float at_label =
        here ? exp_bounded(set1(x[label] - maximum))[0] * factor - k.scale : 0.0f;  // before d replaces x
    sweep(k.cols, [&](int64_t i, auto part) { store(d + i, exp_bounded(load(x + i, part) - maximum) * factor, part); });
    if (here) store(d + label, set1(at_label), Part{1});
  }
}

}  // namespace

void cross_entropy_max(const CrossEntropyMaxCpu& k) {
#pragma omp parallel for schedule(static) if (k.rows * k.cols > kSerialWork)
  for (int64_t r = 0; r < k.rows; ++r) {
    const float* x = k.logits + r * k.stride;
    const vf none = set1(-kInfinity);
    vf m[4] = {none, none, none, none};
    // The comparison keeps its second operand when either is NaN: a NaN logit stays in the maximum, and in the loss.
    sweep4(k.cols, [&](int64_t i, auto part, auto u) {
      const vf v = fill_rest(load(x + i, part), -kInfinity, part);
      m[u.value] = m[u.value] != m[u.value] ? m[u.value] : max(m[u.value], v);
    });
    float largest_value = -kInfinity;
    for (const vf& v : m)
      for (int i = 0; i < kLanes; ++i)
        if (v[i] > largest_value || v[i] != v[i]) largest_value = v[i];
    k.maximum[r] = largest_value;
  }
}

void cross_entropy_sum(const CrossEntropySumCpu& k) {
#pragma omp parallel for schedule(static) if (k.rows * k.cols > kSerialWork)
  for (int64_t r = 0; r < k.rows; ++r) {
    const float* x = k.logits + r * k.stride;
    const float maximum = k.maximum[r];
    vf s[4] = {};
    sweep4(k.cols, [&](int64_t i, auto part, auto u) {
      s[u.value] += fill_rest(exp_bounded(load(x + i, part) - maximum), 0.0f, part);
    });
    k.sum[r] = sum4(s);
    const int64_t label = k.labels[r] - k.column_begin;
    k.target[r] = k.labels[r] >= 0 && label >= 0 && label < k.cols ? x[label] - maximum : 0.0f;
  }
}

void cross_entropy_grad(const CrossEntropyGradCpu& k) {
  if (k.dlogits)
    gradient(k, reinterpret_cast<Bf16*>(k.dlogits), k.dlogits_stride);
  else
    gradient(k, k.logits, k.stride);
}

}  // namespace trainctl::kernels::TRAINCTL_LEVEL
