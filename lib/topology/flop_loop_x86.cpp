// lib/topology/flop_loop_x86.cpp -- AVX2 and AVX-512 loops, chosen by what the processor says it has.
//
// Two units with a latency of four or five cycles need ten independent chains; more hide the loop's own instructions.
#include <immintrin.h>

#include "topology/flop_loop_portable.h"

namespace trainctl {
namespace {

constexpr float kStep = 1.0f / 4096;

__attribute__((target("avx2,fma"))) void run_avx2(int64_t iterations, float* out) {
  volatile float opaque_one = 1.0f, opaque_step = kStep;  // the compiler must not see that the product changes nothing
  const __m256 m = _mm256_set1_ps(opaque_one), c = _mm256_set1_ps(opaque_step);
  __m256 x[12];
#pragma GCC unroll 12
  for (int k = 0; k < 12; ++k) x[k] = _mm256_set1_ps(static_cast<float>(k));
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 12
    for (int k = 0; k < 12; ++k) x[k] = _mm256_fmadd_ps(x[k], m, c);
  }
#pragma GCC unroll 12
  for (int k = 0; k < 12; ++k) _mm256_storeu_ps(out + 8 * k, x[k]);
}

__attribute__((target("avx512f"))) void run_avx512(int64_t iterations, float* out) {
  volatile float opaque_one = 1.0f, opaque_step = kStep;
  const __m512 m = _mm512_set1_ps(opaque_one), c = _mm512_set1_ps(opaque_step);
  __m512 x[24];
#pragma GCC unroll 24
  for (int k = 0; k < 24; ++k) x[k] = _mm512_set1_ps(static_cast<float>(k));
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 24
    for (int k = 0; k < 24; ++k) x[k] = _mm512_fmadd_ps(x[k], m, c);
  }
#pragma GCC unroll 24
  for (int k = 0; k < 24; ++k) _mm512_storeu_ps(out + 16 * k, x[k]);
}

// Each instruction adds two products of bf16 to every f32 lane: 4 operations per lane.
__attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16"))) void run_avx512_bf16(int64_t iterations, float* out) {
  volatile float opaque_one = 1.0f, opaque_half_step = kStep / 2;
  const __m512 one = _mm512_set1_ps(opaque_one), half_step = _mm512_set1_ps(opaque_half_step);
  const __m512bh a = _mm512_cvtne2ps_pbh(one, one), b = _mm512_cvtne2ps_pbh(half_step, half_step);
  __m512 x[24];
#pragma GCC unroll 24
  for (int k = 0; k < 24; ++k) x[k] = _mm512_set1_ps(static_cast<float>(k));
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 24
    for (int k = 0; k < 24; ++k) x[k] = _mm512_dpbf16_ps(x[k], a, b);
  }
#pragma GCC unroll 24
  for (int k = 0; k < 24; ++k) _mm512_storeu_ps(out + 16 * k, x[k]);
}

}  // namespace

std::vector<FlopLoop> f32_flop_loops() {
  std::vector<FlopLoop> loops;
  if (__builtin_cpu_supports("avx512f"))
    loops.push_back({.instruction = "avx512 fma",
                     .chains = 24,
                     .lanes = 16,
                     .flops_per_iteration = 2 * 24 * 16,
                     .step = kStep,
                     .run = run_avx512});
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    loops.push_back({.instruction = "avx2 fma",
                     .chains = 12,
                     .lanes = 8,
                     .flops_per_iteration = 2 * 12 * 8,
                     .step = kStep,
                     .run = run_avx2});
  loops.push_back(portable_flop_loop());
  return loops;
}

std::vector<FlopLoop> bf16_flop_loops() {
  std::vector<FlopLoop> loops;
  if (__builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    loops.push_back({.instruction = "avx512 bf16 dot product",
                     .chains = 24,
                     .lanes = 16,
                     .flops_per_iteration = 4 * 24 * 16,
                     .step = kStep,
                     .run = run_avx512_bf16});
  return loops;
}

}  // namespace trainctl
