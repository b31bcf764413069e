// kernels/common/simd.h -- vectors of the level being compiled, loads and stores of f32 and bf16, loops with tails.
//
// For *_cpu.cpp files only. Everything lives in the level's namespace and no std or fmt template is instantiated here:
// an inline function compiled for AVX-512 must never be the one the linker keeps for the portable level.
// The build gives TRAINCTL_LEVEL (the namespace) and TRAINCTL_LANES (floats per vector).
#pragma once

#include <cstdint>

#include "kernels/common/scratch.h"

#define TRAINCTL_INLINE [[gnu::always_inline]] inline

namespace trainctl::kernels::TRAINCTL_LEVEL {

constexpr int kLanes = TRAINCTL_LANES;
typedef float vf __attribute__((vector_size(kLanes * 4)));
typedef int32_t vi __attribute__((vector_size(kLanes * 4)));
typedef uint32_t vu __attribute__((vector_size(kLanes * 4)));
typedef uint16_t vh __attribute__((vector_size(kLanes * 2)));
typedef double vd __attribute__((vector_size(kLanes * 8)));  // two registers

struct Bf16 {
  uint16_t bits;
};

// How many lanes a step of a loop covers: a constant, so that whole vectors compile to plain loads.
struct Whole {
  static constexpr int count = kLanes;
};
struct Part {
  int count;
};
template <int I>
struct Index {
  static constexpr int value = I;
};

TRAINCTL_INLINE vf set1(float x) { return x - vf{}; }  // x - 0 is x for every x, -0 and NaN included
TRAINCTL_INLINE vi set1i(int32_t x) { return x + vi{}; }
TRAINCTL_INLINE vf as_float(vu x) { return reinterpret_cast<vf>(x); }
TRAINCTL_INLINE vu as_bits(vf x) { return reinterpret_cast<vu>(x); }
TRAINCTL_INLINE vf max(vf a, vf b) { return a > b ? a : b; }
TRAINCTL_INLINE float max(float a, float b) { return a > b ? a : b; }
TRAINCTL_INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
TRAINCTL_INLINE int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
TRAINCTL_INLINE vi lane_numbers() {
  vi v{};
  for (int i = 0; i < kLanes; ++i) v[i] = i;
  return v;
}
TRAINCTL_INLINE vf sqrt(vf x) {
  vf r{};
  for (int i = 0; i < kLanes; ++i) r[i] = __builtin_sqrtf(x[i]);
  return r;
}
// Lanes are added in pairs of halves: the same order at every call.
TRAINCTL_INLINE float sum(vf x) {
  float part[kLanes];
  __builtin_memcpy(part, &x, sizeof(x));
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) part[i] += part[i + half];
  return part[0];
}
TRAINCTL_INLINE double sum(vd x) {
  double s = 0;
  for (int i = 0; i < kLanes; ++i) s += x[i];
  return s;
}
TRAINCTL_INLINE float largest(vf x) {
  float m = x[0];
  for (int i = 1; i < kLanes; ++i) m = max(m, x[i]);
  return m;
}

TRAINCTL_INLINE float to_float(float x) { return x; }
TRAINCTL_INLINE float to_float(Bf16 x) {
  const uint32_t u = static_cast<uint32_t>(x.bits) << 16;
  float f = 0;
  __builtin_memcpy(&f, &u, 4);
  return f;
}
TRAINCTL_INLINE vf widen(vh x) { return as_float(__builtin_convertvector(x, vu) << 16); }
// Round to nearest even; NaN stays NaN.
TRAINCTL_INLINE vh narrow(vf x) {
  const vu u = as_bits(x);
  const vu rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  const vu nan = (u >> 16) | 0x40u;
  return __builtin_convertvector(x != x ? nan : rounded, vh);
}

TRAINCTL_INLINE vf load(const float* p, Whole) {
  vf v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}
TRAINCTL_INLINE vf load(const float* p, Part part) {  // zero beyond the part
  vf v{};
  for (int i = 0; i < part.count; ++i) v[i] = p[i];
  return v;
}
TRAINCTL_INLINE vf load(const Bf16* p, Whole) {
  vh v;
  __builtin_memcpy(&v, p, sizeof(v));
  return widen(v);
}
TRAINCTL_INLINE vf load(const Bf16* p, Part part) {
  vf v{};
  for (int i = 0; i < part.count; ++i) v[i] = to_float(p[i]);
  return v;
}
TRAINCTL_INLINE void store(float* p, vf v, Whole) { __builtin_memcpy(p, &v, sizeof(v)); }
TRAINCTL_INLINE void store(float* p, vf v, Part part) {
  for (int i = 0; i < part.count; ++i) p[i] = v[i];
}
TRAINCTL_INLINE void store(Bf16* p, vf v, Whole) {
  const vh h = narrow(v);
  __builtin_memcpy(p, &h, sizeof(h));
}
TRAINCTL_INLINE void store(Bf16* p, vf v, Part part) {
  const vh h = narrow(v);
  for (int i = 0; i < part.count; ++i) p[i].bits = h[i];
}
// Lanes beyond a part become `fill`.
TRAINCTL_INLINE vf fill_rest(vf v, float, Whole) { return v; }
TRAINCTL_INLINE vf fill_rest(vf v, float fill, Part part) { return lane_numbers() < part.count ? v : set1(fill); }

// f(i, Whole) for every whole vector of [0, n), then f(i, Part) for the rest.
template <class F>
TRAINCTL_INLINE void sweep(int64_t n, F&& f) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) f(i, Whole{});
  if (i < n) f(i, Part{static_cast<int>(n - i)});
}
// The same with four independent accumulators: f(i, Whole or Part, Index<0..3>). Hides the latency of additions.
template <class F>
TRAINCTL_INLINE void sweep4(int64_t n, F&& f) {
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    f(i, Whole{}, Index<0>{});
    f(i + kLanes, Whole{}, Index<1>{});
    f(i + 2 * kLanes, Whole{}, Index<2>{});
    f(i + 3 * kLanes, Whole{}, Index<3>{});
  }
  for (; i + kLanes <= n; i += kLanes) f(i, Whole{}, Index<0>{});
  if (i < n) f(i, Part{static_cast<int>(n - i)}, Index<1>{});
}
TRAINCTL_INLINE float sum4(const vf (&x)[4]) { return sum((x[0] + x[1]) + (x[2] + x[3])); }

// f.template operator()<T>() with T the storage type.
template <class F>
TRAINCTL_INLINE void with_storage(bool is_bf16, F&& f) {
  if (is_bf16)
    f.template operator()<Bf16>();
  else
    f.template operator()<float>();
}
TRAINCTL_INLINE float* scratch_floats(ScratchSlot slot, int64_t count) {
  return static_cast<float*>(scratch(slot, count * 4));
}

}  // namespace trainctl::kernels::TRAINCTL_LEVEL
