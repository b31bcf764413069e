// lib/ops/rope_table.cpp -- see the header; phases never pass through a narrow type.
#include "ops/rope_table.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace trainctl {
namespace {

constexpr double kTwoPi = 6.283185307179586476925;

double llama3(double f, const RopeScaling& s) {
  const double turns = static_cast<double>(s.original_positions) * f / kTwoPi;  // original / wavelength
  const double kept = std::clamp((turns - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor), 0.0, 1.0);
  return kept * f + (1.0 - kept) * f / s.factor;
}

// The pair index whose phase makes `turns` turns over the original context.
double yarn_pair(double turns, int64_t dim, const RopeScaling& s) {
  return static_cast<double>(dim) * std::log(static_cast<double>(s.original_positions) / (turns * kTwoPi)) /
         (2.0 * std::log(s.theta));
}

}  // namespace

std::vector<double> rope_frequencies(int64_t dim, const RopeScaling& scaling) {
  ensure(dim > 0 && dim % 2 == 0, "rotary embedding needs an even head_dim");
  std::vector<double> frequencies(static_cast<size_t>(dim / 2));
  double low = 0, high = 1;
  if (scaling.kind == "yarn") {
    low = std::max(std::floor(yarn_pair(scaling.beta_fast, dim, scaling)), 0.0);
    high = std::min(std::ceil(yarn_pair(scaling.beta_slow, dim, scaling)), static_cast<double>(dim - 1));
    if (low == high) high += 0.001;  // a ramp needs some width
  }
  for (int64_t j = 0; j < dim / 2; ++j) {
    const double f = std::pow(scaling.theta, -2.0 * static_cast<double>(j) / static_cast<double>(dim));
    double scaled = f;
    if (scaling.kind == "linear") {
      scaled = f / scaling.factor;
    } else if (scaling.kind == "llama3") {
      scaled = llama3(f, scaling);
    } else if (scaling.kind == "yarn") {
      const double interpolated = std::clamp((static_cast<double>(j) - low) / (high - low), 0.0, 1.0);
      scaled = (1.0 - interpolated) * f + interpolated * f / scaling.factor;
    } else {
      ensure(scaling.kind == "none", "unknown rope scaling");
    }
    frequencies[static_cast<size_t>(j)] = scaled;
  }
  return frequencies;
}

double rope_attention_factor(const RopeScaling& scaling) {
  if (scaling.kind != "yarn") return 1.0;
  if (scaling.attention_factor > 0) return scaling.attention_factor;
  return scaling.factor > 1.0 ? 0.1 * std::log(scaling.factor) + 1.0 : 1.0;
}

void fill_rope_table(int64_t positions, int64_t dim, const RopeScaling& scaling, float* cosine, float* sine) {
  const std::vector<double> frequencies = rope_frequencies(dim, scaling);
  const double factor = rope_attention_factor(scaling);
  for (int64_t p = 0; p < positions; ++p)
    for (size_t j = 0; j < frequencies.size(); ++j) {
      const double phase = static_cast<double>(p) * frequencies[j];
      *cosine++ = static_cast<float>(std::cos(phase) * factor);
      *sine++ = static_cast<float>(std::sin(phase) * factor);
    }
}

}  // namespace trainctl
