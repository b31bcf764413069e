// lib/checkpoint/token_bucket.h -- a rate limit: bytes may pass as fast as tokens drip into a bucket.
#pragma once

#include <chrono>
#include <cstdint>

namespace trainctl {

// Holds at most `burst_bytes` tokens and starts full. Who finds no debt may take any amount, and the next ones wait
// until it is paid: over any time t at most burst + rate * t + (one request) bytes pass. The caller brings the clock.
class TokenBucket {
 public:
  using Clock = std::chrono::steady_clock;
  // rate 0: no limit.
  TokenBucket(int64_t bytes_per_s, int64_t burst_bytes, Clock::time_point now);

  // How long the caller must wait from `now` before it may take; zero: not at all. Takes nothing.
  Clock::duration wait(Clock::time_point now);
  void take(int64_t bytes);

 private:
  double rate_, burst_, tokens_;
  Clock::time_point filled_;
};

}  // namespace trainctl
