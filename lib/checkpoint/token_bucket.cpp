// lib/checkpoint/token_bucket.cpp -- refilling by elapsed time.
#include "checkpoint/token_bucket.h"

#include <algorithm>

namespace trainctl {

TokenBucket::TokenBucket(int64_t bytes_per_s, int64_t burst_bytes, Clock::time_point now)
    : rate_(static_cast<double>(bytes_per_s)),
      burst_(static_cast<double>(burst_bytes)),
      tokens_(burst_),
      filled_(now) {}

TokenBucket::Clock::duration TokenBucket::wait(Clock::time_point now) {
  if (rate_ <= 0) return Clock::duration::zero();
  if (now > filled_) {  // a clock that stands still or comes from another core gives nothing
    tokens_ = std::min(burst_, tokens_ + rate_ * std::chrono::duration<double>(now - filled_).count());
    filled_ = now;
  }
  if (tokens_ >= 0) return Clock::duration::zero();
  const double seconds = std::min(-tokens_ / rate_, 1e9);  // rounded up below: waiting so long must be enough
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)) + Clock::duration(1);
}

void TokenBucket::take(int64_t bytes) {
  if (rate_ > 0) tokens_ -= static_cast<double>(bytes);
}

}  // namespace trainctl
