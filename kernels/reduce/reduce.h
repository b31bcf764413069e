// kernels/reduce/reduce.h -- the contracts of sums.
//
// SumOfSquares: out (f64 [1]) += sum x^2, x f32 contiguous; fixed order for any thread count (fixed blocks, summed in
// ascending order). A non-finite x makes it non-finite.
// ColumnSum: out f32 [C] += sum over rows of x [R, C] (f32, bf16; last stride 1), fixed order: a bias gradient.
#pragma once
#include "tensor/tensor.h"

namespace trainctl::kernels {

struct SumOfSquares {
  static constexpr const char* name = "sum_of_squares";
  ConstTensorView x;
  TensorView out;
};
struct ColumnSum {
  static constexpr const char* name = "column_sum";
  ConstTensorView x;
  TensorView out;
};

}  // namespace trainctl::kernels
