// kernels/init/init.h -- the contract of initial values: a pure function of (key, stream, global element index), so
// that every layout starts from the same bits.
//
// Normal: x[i] = std * philox_normal(key, stream, index), rounded to f32; Constant: x[i] = value.
// x: f32 [rows, cols] contiguous, a box of a logical [*, global_cols] tensor: element (r, c) has the index
// (row_begin + r) global_cols + col_begin + c.
#pragma once
#include "tensor/tensor.h"

namespace trainctl::kernels {

struct InitNormal {
  static constexpr const char* name = "init_normal";
  TensorView x;
  uint64_t key = 0, stream = 0;
  double std = 1.0;
  int64_t row_begin = 0, col_begin = 0, global_cols = 1;
};
struct InitConstant {
  static constexpr const char* name = "init_constant";
  TensorView x;
  float value = 0;
};

}  // namespace trainctl::kernels
