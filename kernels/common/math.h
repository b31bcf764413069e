// kernels/common/math.h -- exp, logistic and normal distribution on vectors. For *_cpu.cpp files only (see simd.h).
//
// The polynomials are Chebyshev interpolations computed in f64 for these functions and intervals. Errors against f64:
// exp 1 ulp, logistic 3 ulp, normal_tail 4e-7 relative where it is above 1e-8.
#pragma once

#include "kernels/common/simd.h"

namespace trainctl::kernels::TRAINCTL_LEVEL {

// The two halves of exp(c): c = n ln 2 + r with |r| <= ln(2) / 2 and n whole.
struct ExpParts {
  vf p;  // exp(r)
  vu n;
};
TRAINCTL_INLINE ExpParts exp_parts(vf c) {
  // n = round(c / ln 2) by adding 1.5 2^23, whose unit in the last place is 1; the sum's low bits are n.
  const vf shift = set1(12582912.0f);
  const vf shifted = c * 1.442695041f + shift;
  const vf n = shifted - shift;
  const vf r = (c - n * 0.693359375f) - n * -2.12194440e-4f;  // ln 2 in two parts: the first product is exact
  vf q = set1(1.392637599e-03f);
  q = q * r + 8.363333082e-03f;
  q = q * r + 4.166655346e-02f;
  q = q * r + 1.666657606e-01f;
  q = q * r + 0.5f;
  return {(q * r) * r + r + 1.0f, as_bits(shifted) - as_bits(shift)};
}

constexpr float kExpLow = -86.6f;  // below, exp is 0 here: no denormal results

// exp(x): 0 below kExpLow (-inf included), inf above 88.72, NaN for NaN.
TRAINCTL_INLINE vf exp(vf x) {
  const vf low = set1(kExpLow), high = set1(88.722839f);
  const ExpParts e = exp_parts(x < low ? low : (x > high ? high : x));
  const vf y = e.p * as_float((e.n + 126u) << 23) * 2.0f;  // 2^n as 2 2^(n-1): n reaches 128
  const vf inf = as_float(vu{} + 0x7f800000u);
  return x < low ? vf{} : (x > high ? inf : y);
}

// exp(x) for x below 80, as softmax has it after the maximum is taken off: the same bits as exp for fewer instructions.
// Larger x give finite nonsense or inf, which masks throw away.
TRAINCTL_INLINE vf exp_bounded(vf x) {
  const vf low = set1(kExpLow);
  const ExpParts e = exp_parts(x < low ? low : x);
  return x < low ? vf{} : e.p * as_float((e.n + 127u) << 23);
}

// 1 / (1 + exp(-x))
TRAINCTL_INLINE vf logistic(vf x) { return 1.0f / (1.0f + exp(-x)); }

// P(Z > |x|) of a standard normal Z, given e = exp(-x^2 / 2): e times half the scaled complementary error function.
TRAINCTL_INLINE vf normal_tail(vf x, vf e) {
  const vf magnitude = as_float(as_bits(x) & 0x7fffffffu);
  const vf t = 1.0f / (1.0f + magnitude * 0.2828427125f);  // 0.4 / sqrt(2)
  vf p = set1(-4.226712539e-02f);
  p = p * t + 2.714251944e-01f;
  p = p * t + -6.852264221e-01f;
  p = p * t + 8.202074712e-01f;
  p = p * t + -5.386289667e-01f;
  p = p * t + 4.295639251e-01f;
  p = p * t + 6.412424733e-02f;
  p = p * t + 2.330005238e-01f;
  p = p * t + 2.217921686e-01f;
  p = p * t + 2.260226870e-01f;
  p = p * t + -1.370353536e-05f;
  return 0.5f * (p * e);
}

}  // namespace trainctl::kernels::TRAINCTL_LEVEL
