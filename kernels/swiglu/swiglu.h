// kernels/swiglu/swiglu.h -- the contract of SwiGLU: y[t, f] = silu(gate[t, f]) up[t, f], silu(x) = x / (1 + exp(-x)).
// gate_up [T, 2F] contiguous: gate in columns [0, F), up in [F, 2F); y, dy [T, F]; dgate_up overwritten, may alias
// gate_up. Computed in f32; one dtype (f32, bf16). Source: Shazeer 2020.
#pragma once
#include "tensor/tensor.h"

namespace trainctl::kernels {

struct SwigluForward {
  static constexpr const char* name = "swiglu_forward";
  ConstTensorView gate_up;
  TensorView y;
};
struct SwigluBackward {
  static constexpr const char* name = "swiglu_backward";
  ConstTensorView gate_up, dy;
  TensorView dgate_up;
};

}  // namespace trainctl::kernels
