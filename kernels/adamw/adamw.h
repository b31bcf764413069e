// kernels/adamw/adamw.h -- the contract of one fused AdamW update over a flat run of parameters.
//
// g = grad_scale grad; m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2;
// w -= lr (m / (1 - b1^step) / (sqrt(v / (1 - b2^step)) + eps) + weight_decay w). step counts from 1.
// master, grad, m, v f32 [N], contiguous, no aliasing; weight: bf16 [N] or empty: receives the rounded master.
// Bias corrections are computed in f64 and applied in f32. Source: Loshchilov & Hutter 2019, algorithm 2.
#pragma once
#include "tensor/tensor.h"

namespace trainctl::kernels {

struct AdamW {
  static constexpr const char* name = "adamw";
  TensorView master, m, v, weight;
  ConstTensorView grad;
  double lr = 0, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0;
  float grad_scale = 1.0f;
  int64_t step = 1;
};

}  // namespace trainctl::kernels
