// lib/data/blend.cpp -- weights to whole shares, shares to one period of Tijdeman's schedule.
#include "data/blend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace trainctl {
namespace {

constexpr int64_t kLargestPeriod = int64_t{1} << 20;

// Whole numbers in exactly the ratio of the weights, when some scale 10^0 .. 10^6 makes them all whole; else empty.
std::vector<int64_t> decimal_shares(const std::vector<double>& weights, int64_t largest_period) {
  for (double scale = 1; scale <= 1e6; scale *= 10) {
    std::vector<int64_t> shares;
    double sum = 0;
    for (const double w : weights) {
      const double scaled = w * scale, whole = std::round(scaled);
      if (whole < 1 || whole > 1e15 || std::abs(scaled - whole) > 1e-9 * whole) break;
      shares.push_back(static_cast<int64_t>(whole));
      sum += whole;
    }
    if (shares.size() != weights.size() || sum > 1e15) continue;
    int64_t divisor = 0;
    for (const int64_t s : shares) divisor = std::gcd(divisor, s);
    for (int64_t& s : shares) s /= divisor;
    if (std::accumulate(shares.begin(), shares.end(), int64_t{0}) <= largest_period) return shares;
  }
  return {};
}

// The nearest shares with sum `period`, each at least 1: floors first, then the largest remainders.
std::vector<int64_t> rounded_shares(const std::vector<double>& weights, int64_t period) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<int64_t> shares;
  std::vector<double> remainder;
  for (const double w : weights) {
    const double ideal = w / sum * static_cast<double>(period);
    shares.push_back(std::max<int64_t>(1, static_cast<int64_t>(std::floor(ideal))));
    remainder.push_back(ideal - static_cast<double>(shares.back()));
  }
  int64_t left = period - std::accumulate(shares.begin(), shares.end(), int64_t{0});
  for (; left != 0; left += left > 0 ? -1 : 1) {
    // Give to the one most behind, or take (after rounding up to 1) from the one most ahead that can spare it.
    size_t best = 0;
    for (size_t k = 1; k < shares.size(); ++k) {
      const bool better = left > 0 ? remainder[k] > remainder[best] : shares[k] > shares[best];
      if (better) best = k;
    }
    shares[best] += left > 0 ? 1 : -1;
    remainder[best] += left > 0 ? -1 : 1;
  }
  return shares;
}

}  // namespace

std::vector<int64_t> blend_shares(const std::vector<double>& weights) {
  const auto sources = static_cast<int64_t>(weights.size());
  if (sources < 1 || sources > 4096) {
    fail(ErrorKind::config, fmt::format("data.train has {} sources; 1 to 4096 can be blended", sources));
  }
  for (size_t k = 0; k < weights.size(); ++k) {
    if (std::isfinite(weights[k]) && weights[k] > 0) continue;
    fail(ErrorKind::config,
         fmt::format("data.train[{}].weight is {}; it must be a finite number above 0", k, weights[k]));
  }
  // The layout below costs period * sources steps: many sources get a shorter period, never under 64 places each.
  const int64_t limit = std::max(std::min(kLargestPeriod, (int64_t{1} << 28) / sources), 64 * sources);
  std::vector<int64_t> shares = decimal_shares(weights, limit);
  return shares.empty() ? rounded_shares(weights, limit) : shares;
}

Blend::Blend(const std::vector<double>& weights) : shares_(blend_shares(weights)) {
  const auto sources = std::ssize(shares_);
  period_ = std::accumulate(shares_.begin(), shares_.end(), int64_t{0});
  if (sources == 1) return;

  source_.reserve(static_cast<size_t>(period_));
  ordinal_.reserve(static_cast<size_t>(period_));
  std::vector<int64_t> given(shares_.size(), 0);
  const int64_t slack = 2 * sources - 2;
  for (int64_t n = 1; n <= period_; ++n) {
    // debt_k = n m_k - M c_k is M times how much source k is behind. Those behind by at least 1 / (2K - 2) may come;
    // the one that would first be too far behind (by 1 - 1 / (2K - 2)) does. All numbers are whole: ties by index.
    size_t chosen = shares_.size();
    int64_t chosen_time = 0;
    for (size_t k = 0; k < shares_.size(); ++k) {
      const int64_t debt = n * shares_[k] - period_ * given[k];
      if (slack * debt < period_) continue;
      const int64_t time = (slack - 1) * period_ - slack * debt;  // times m_k steps until the deadline
      if (chosen == shares_.size() || time * shares_[chosen] < chosen_time * shares_[k]) {
        chosen = k;
        chosen_time = time;
      }
    }
    ensure(chosen < shares_.size(), "no source is due: the blend's shares do not sum to its period");
    source_.push_back(static_cast<int32_t>(chosen));
    ordinal_.push_back(static_cast<int32_t>(given[chosen]++));
  }
}

Blend::Place Blend::locate(int64_t global_sample) const {
  ensure(global_sample >= 0, "a negative sample number");
  if (source_.empty()) return {0, global_sample};
  const int64_t round = global_sample / period_;
  const auto place = static_cast<size_t>(global_sample % period_);
  const int32_t source = source_[place];
  return {source, round * shares_[static_cast<size_t>(source)] + ordinal_[place]};
}

std::vector<int64_t> Blend::counts(int64_t global_samples) const {
  ensure(global_samples >= 0, "a negative number of samples");
  if (source_.empty()) return {global_samples};
  std::vector<int64_t> counts;
  for (const int64_t share : shares_) counts.push_back(global_samples / period_ * share);
  for (int64_t i = 0; i < global_samples % period_; ++i) ++counts[static_cast<size_t>(source_[static_cast<size_t>(i)])];
  return counts;
}

}  // namespace trainctl
