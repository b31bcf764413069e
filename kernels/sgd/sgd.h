// kernels/sgd/sgd.h -- the contract of stochastic gradient descent with momentum over a flat run.
//
// g = grad_scale grad + weight_decay w; b = momentum b + g (b empty: g alone); w -= lr b.
// master, grad, buffer f32 [N] contiguous; weight: bf16 [N] or empty: receives the rounded master.
#pragma once
#include "tensor/tensor.h"

namespace trainctl::kernels {

struct Sgd {
  static constexpr const char* name = "sgd";
  TensorView master, buffer, weight;
  ConstTensorView grad;
  double lr = 0, momentum = 0, weight_decay = 0;
  float grad_scale = 1.0f;
};

}  // namespace trainctl::kernels
