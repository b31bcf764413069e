// kernels/cast/cast.h -- the contract of dtype conversion: y = x, f32 <-> bf16 (round to nearest even) or a plain copy;
// any strides with last stride 1, up to two dimensions, same shape, no aliasing.
#pragma once
#include "tensor/tensor.h"

namespace trainctl::kernels {

struct Cast {
  static constexpr const char* name = "cast";
  ConstTensorView x;
  TensorView y;
};

}  // namespace trainctl::kernels
