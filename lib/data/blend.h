// lib/data/blend.h -- which source a global sample comes from, for any sample number alone.
#pragma once

#include <cstdint>
#include <vector>

namespace trainctl {

// The weights as whole numbers m_k with greatest common divisor 1, in exactly their ratio where their decimals and a
// sum of at most 2^20 (less for many) allow that, else rounded to that sum. Equal shares: the same blend. One weight
// per source, each finite and > 0, 1 to 4096 of them. Throws Error{config} naming the weight otherwise.
std::vector<int64_t> blend_shares(const std::vector<double>& weights);

// The weights become whole numbers m_k with sum M (decimal weights exactly, e.g. 0.7 and 0.3 -> 7 and 3; weights that
// need M above the limit are rounded to one part in 2^20). A period of M samples is laid out once so that after every
// prefix of g samples, g any number, source k has had c_k samples with |c_k - g m_k / M| < 1; it then repeats.
// Source: Tijdeman 1980, "The chairman assignment problem" (deviation at most 1 - 1/(2K - 2)).
class Blend {
 public:
  struct Place {
    int32_t source;
    int64_t ordinal;  // the how-manieth sample of that source, from 0
  };

  explicit Blend(const std::vector<double>& weights);

  int64_t period() const { return period_; }
  const std::vector<int64_t>& shares() const { return shares_; }  // blend_shares(weights), out of period()
  Place locate(int64_t global_sample) const;                      // O(1)
  std::vector<int64_t> counts(int64_t global_samples) const;      // c_k after that many samples; O(period)

 private:
  int64_t period_ = 0;
  std::vector<int64_t> shares_;
  std::vector<int32_t> source_, ordinal_;  // [period]; empty for a single source
};

}  // namespace trainctl
