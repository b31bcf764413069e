// tests/fault/checkpoint/campaign.h -- how much of a sweep is run: all of it in the campaign, a sample every day.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainctl::testing {

bool is_campaign();  // TRAINCTL_CAMPAIGN=1

// Every k-th of `all`, so that at most `everyday` are left; all of them in the campaign.
template <class T>
std::vector<T> sample_of(const std::vector<T>& all, size_t everyday) {
  if (is_campaign() || all.size() <= everyday) return all;
  std::vector<T> some;
  for (size_t i = 0; i < everyday; ++i) some.push_back(all[i * all.size() / everyday]);
  return some;
}

// Prints "result: WHAT: N tried, N passed"; scripts/dev collects these lines.
void report_result(const std::string& what, int64_t tried, int64_t passed);

// The checkpoint sections to repeat a sweep with: every way in which data reach the disk, or the one
// in TRAINCTL_SWEEP_CONFIG.
std::vector<std::string> sweep_configs();

}  // namespace trainctl::testing
