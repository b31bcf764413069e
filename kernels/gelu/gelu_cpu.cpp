// kernels/gelu/gelu_cpu.cpp -- both forms on vectors. (1 + tanh(u)) / 2 is logistic(2u), so the tanh form needs one
// exp.
#include "kernels/gelu/gelu_cpu.h"

#include "kernels/common/chunks.h"
#include "kernels/common/math.h"

namespace trainctl::kernels::TRAINCTL_LEVEL {
namespace {

constexpr float kSlope = 1.5957691216f;  // 2 sqrt(2 / pi)
constexpr float kCubic = 0.044715f * kSlope;
constexpr float kInverseRoot2Pi = 0.3989422804f;  // density of a standard normal at 0

struct ExactForm {
  TRAINCTL_INLINE static vf value(vf x) { return x * cumulative(x, exp(-0.5f * (x * x))); }
  TRAINCTL_INLINE static vf slope(vf x) {
    const vf e = exp(-0.5f * (x * x));
    return cumulative(x, e) + x * (e * kInverseRoot2Pi);
  }
  TRAINCTL_INLINE static vf cumulative(vf x, vf e) {
    const vf tail = normal_tail(x, e);
    return x > vf{} ? 1.0f - tail : tail;
  }
};
struct TanhForm {
  TRAINCTL_INLINE static vf value(vf x) { return x * logistic(x * (kSlope + kCubic * (x * x))); }
  TRAINCTL_INLINE static vf slope(vf x) {
    const vf x2 = x * x, u = x * (kSlope + kCubic * x2);
    const vf e = exp(as_float(as_bits(u) | 0x80000000u));  // exp(-|u|): 1 - logistic(u) without cancellation
    const vf large = 1.0f / (1.0f + e), s = u > vf{} ? large : e * large;
    const vf inner = x * (kSlope + (3.0f * kCubic) * x2);  // x times the derivative of u
    const vf bend = e * large * large;                     // logistic'(u)
    return s + (bend == vf{} ? vf{} : bend * inner);       // 0 times an overflowed cube is 0 here
  }
};

template <class Form, class T>
void forward(const GeluForwardCpu& k) {
  const T* x = static_cast<const T*>(k.x);
  T* y = static_cast<T*>(k.y);
  over_chunks(k.n, [=](int64_t i, auto part) { store(y + i, Form::value(load(x + i, part)), part); });
}
template <class Form, class T>
void backward(const GeluBackwardCpu& k) {
  const T* x = static_cast<const T*>(k.x);
  const T* dy = static_cast<const T*>(k.dy);
  T* dx = static_cast<T*>(k.dx);
  over_chunks(k.n,
              [=](int64_t i, auto part) { store(dx + i, load(dy + i, part) * Form::slope(load(x + i, part)), part); });
}

}  // namespace

void gelu_forward(const GeluForwardCpu& k) {
  with_storage(k.bf16, [&]<class T>() { k.tanh_form ? forward<TanhForm, T>(k) : forward<ExactForm, T>(k); });
}
void gelu_backward(const GeluBackwardCpu& k) {
  with_storage(k.bf16, [&]<class T>() { k.tanh_form ? backward<TanhForm, T>(k) : backward<ExactForm, T>(k); });
}

}  // namespace trainctl::kernels::TRAINCTL_LEVEL
