// kernels/layernorm/layernorm.h -- the contract of layer normalisation over the last dimension.
//
// y = gain (x - mean) rstd + bias, rstd = 1 / sqrt(var + eps), var = mean((x - mean)^2). x, y [R, C] row-contiguous of
// one dtype (f32, bf16); gain, bias [C] of that dtype; mean, rstd f32 [R]. Statistics in f32 (two passes), one rounding
// at the store. y may alias x in the forward.
// Backward: dx overwritten (may alias dy); dgain, dbias f32 [C] accumulated, rows summed in a fixed order.
// Tolerance against f64: f32 2e-6, bf16 8e-3 (relative to the row's norm). Source: Ba et al. 2016.
#pragma once
#include "tensor/tensor.h"

namespace trainctl::kernels {

struct LayerNormForward {
  static constexpr const char* name = "layernorm_forward";
  ConstTensorView x, gain, bias;
  TensorView y, mean, rstd;
  float eps = 1e-5f;
};
struct LayerNormBackward {
  static constexpr const char* name = "layernorm_backward";
  ConstTensorView x, gain, mean, rstd, dy;
  TensorView dx, dgain, dbias;
};

}  // namespace trainctl::kernels
