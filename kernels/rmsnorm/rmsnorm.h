// kernels/rmsnorm/rmsnorm.h -- the contract of root-mean-square normalisation over the last dimension.
//
// y = gain x rstd, rstd = 1 / sqrt(mean(x^2) + eps). x, y: [R, C], or [T, H, C] with any strides but the last (heads
// inside a fused projection), of one dtype (f32, bf16); gain [C] of that dtype; rstd f32 [R] or [T, H], contiguous.
// Sums in f32, one rounding at the store. y may alias x in the forward.
// Backward: dx overwritten (may alias dy); dgain f32 [C] accumulated, rows summed in a fixed order.
// Tolerance against f64: f32 2e-6, bf16 8e-3. Source: Zhang & Sennrich 2019, eq. 4.
#pragma once
#include "tensor/tensor.h"

namespace trainctl::kernels {

struct RmsNormForward {
  static constexpr const char* name = "rmsnorm_forward";
  ConstTensorView x, gain;
  TensorView y, rstd;
  float eps = 1e-5f;
};
struct RmsNormBackward {
  static constexpr const char* name = "rmsnorm_backward";
  ConstTensorView x, gain, rstd, dy;
  TensorView dx, dgain;
};

}  // namespace trainctl::kernels
