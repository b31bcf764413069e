// kernels/gelu/gelu.h -- the contract of GELU: exact x Phi(x), or the tanh form
// 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))). Computed in f32. x, y, dy, dx contiguous, one dtype (f32, bf16).
// y may alias x; dx may alias dy. Tolerance against f64: f32 1e-6, bf16 8e-3. Source: Hendrycks & Gimpel 2016.
#pragma once
#include "tensor/tensor.h"

namespace trainctl::kernels {

struct GeluForward {
  static constexpr const char* name = "gelu_forward";
  ConstTensorView x;
  TensorView y;
  bool tanh_form = false;
};
struct GeluBackward {
  static constexpr const char* name = "gelu_backward";
  ConstTensorView x, dy;
  TensorView dx;
  bool tanh_form = false;
};

}  // namespace trainctl::kernels
