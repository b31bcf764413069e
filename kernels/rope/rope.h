// kernels/rope/rope.h -- the contract of rotary position embedding, in place.
//
// For position p and pair j < D/2: (x[j], x[j + D/2]) is rotated by the angle whose cosine and sine stand in
// cosine[p, j] and sine[p, j] (already times the attention factor); `inverse` rotates back: the transpose, the
// backward. x [T, H, D], any strides but the last, f32 or bf16, overwritten; positions i32 [T]; cosine, sine f32 [P,
// D/2] with every position < P. Computed in f32, one rounding at the store. Source: Su et al. 2021; half-split pairing.
#pragma once
#include "tensor/tensor.h"

namespace trainctl::kernels {

struct Rope {
  static constexpr const char* name = "rope";
  TensorView x;
  ConstTensorView positions, cosine, sine;
  bool inverse = false;
};

}  // namespace trainctl::kernels
