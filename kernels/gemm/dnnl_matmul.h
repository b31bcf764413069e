// kernels/gemm/dnnl_matmul.h -- one matrix product through oneDNN, with its primitives kept.
#pragma once

#include <compare>
#include <cstdint>

namespace trainctl::kernels {

enum class BiasKind : uint8_t { none, f32, bf16 };

// c[m, n] = a[m, k] b[k, n] (+ bias) (+ c): everything a primitive is built from. m, n, k >= 1.
struct MatmulProblem {
  int64_t m = 0, n = 0, k = 0;
  int64_t a_row = 0, a_col = 0, b_row = 0, b_col = 0, c_row = 0;  // strides in elements
  bool bf16_in = false, bf16_out = false, accumulate = false;
  BiasKind bias = BiasKind::none;
  auto operator<=>(const MatmulProblem&) const = default;
};

// True when done; false, with c untouched, when oneDNN has only its reference loops for this problem (bf16 on a
// processor without the instructions). Throws Error{internal} when oneDNN fails. Thread-safe: primitives belong to the
// calling thread, at most kMatmulCache of them.
inline constexpr int kMatmulCache = 512;
bool dnnl_matmul(const MatmulProblem& problem, const void* a, const void* b, const void* bias, void* c);

}  // namespace trainctl::kernels
