// kernels/gemm/gemm.h -- the contract of matrix multiplication.
//
// c[m, n] = a[m, k] b[k, n] (+ bias[n]) (+ c[m, n] when accumulate).
// a, b: two dimensions, any strides with one of them 1, so that a transpose is a view; same dtype, f32 or bf16.
// c: row-contiguous (last stride 1, any leading stride); f32, or bf16 when a and b are bf16. bias: dtype of b, or
// empty. Products and sums in f32, one rounding at the store. c aliases neither input. m, n or k == 0 is legal (k == 0:
// c = bias or 0, or unchanged when accumulate). Result is the same for the same shapes, strides and thread count.
#pragma once
#include "tensor/tensor.h"

namespace trainctl::kernels {

struct Gemm {
  static constexpr const char* name = "gemm";
  ConstTensorView a, b;
  ConstTensorView bias;
  TensorView c;
  bool accumulate = false;
};
inline int64_t flops(const Gemm& g) { return 2 * g.c.dim(0) * g.c.dim(1) * g.a.dim(1); }

}  // namespace trainctl::kernels
