// kernels/common/entry.h -- what every kernel's entry checks of its views. Not for *_cpu.cpp files.
#pragma once

#include <string>

#include "base/error.h"
#include "tensor/tensor.h"

namespace trainctl::kernels {

// The storage types of activations; another dtype is our own bug.
template <class View>
bool is_bf16(const View& v, const char* kernel) {
  ensure(v.dtype == DType::f32 || v.dtype == DType::bf16, std::string(kernel) + ": a view is neither f32 nor bf16");
  return v.dtype == DType::bf16;
}
template <class View>
bool contiguous(const View& v) {
  int64_t step = 1;
  for (int i = v.rank() - 1; i >= 0; --i) {
    if (v.dim(i) > 1 && v.stride(i) != step) return false;
    step *= v.dim(i);
  }
  return true;
}
// Last stride 1 (or a last dimension of at most one element).
template <class View>
bool row_contiguous(const View& v) {
  const int last = v.rank() - 1;
  return last < 0 || v.dim(last) <= 1 || v.stride(last) == 1;
}

}  // namespace trainctl::kernels
