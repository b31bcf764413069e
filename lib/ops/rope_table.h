// lib/ops/rope_table.h -- rotary phases with context-extension scaling, computed in f64.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainctl {

// Inverse frequencies theta^(-2j/dim), j < dim/2, after scaling:
//   linear: f / factor.
//   llama3: wavelengths longer than original/low_freq_factor are divided by factor, shorter than
//   original/high_freq_factor
//           kept, between them blended linearly in original/wavelength. Source: Llama 3.1 release, 2024.
//   yarn:   interpolation for slow pairs, none for fast ones, a ramp between; cosines and sines are multiplied by the
//           attention factor, 0.1 ln(factor) + 1 unless given. Source: Peng et al. 2023, eqs. 17-22.
struct RopeScaling {
  std::string kind = "none";
  double theta = 10000.0, factor = 1.0, low_freq_factor = 1.0, high_freq_factor = 4.0;
  int64_t original_positions = 0;
  double beta_fast = 32.0, beta_slow = 1.0;
  double attention_factor = 0.0;  // 0: the default of the kind
};
std::vector<double> rope_frequencies(int64_t dim, const RopeScaling& scaling);
double rope_attention_factor(const RopeScaling& scaling);

// Fills cosine and sine, [positions, dim/2] each, row-major: phases in f64, rounded once.
void fill_rope_table(int64_t positions, int64_t dim, const RopeScaling& scaling, float* cosine, float* sine);

}  // namespace trainctl
