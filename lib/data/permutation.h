// lib/data/permutation.h -- a keyed shuffle of [0, n) in which any position is computed alone: no array, no state.
//
// A Feistel network on the smallest number of bits that holds n, walked until the value falls below n again (at most
// two steps on average). Round keys come from Philox(seed, stream, round). Source: Black & Rogaway 2002, "Ciphers with
// arbitrary finite domains", method 3.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "base/error.h"
#include "base/philox.h"

namespace trainctl {

class Permutation {
 public:
  // n >= 0. Different (seed, stream) give unrelated orders.
  Permutation(int64_t n, uint64_t seed, uint64_t stream) : n_(static_cast<uint64_t>(n)) {
    ensure(n >= 0, "a permutation of a negative number of things");
    const int bits = std::max(static_cast<int>(std::bit_width(n_ > 0 ? n_ - 1 : uint64_t{0})), 4);
    left_bits_ = bits / 2;
    right_bits_ = bits - left_bits_;
    for (size_t r = 0; r < kRounds; ++r) {
      const auto words = philox(seed, stream, r);
      keys_[r] = uint64_t{words[0]} << 32 | words[1];
    }
  }

  int64_t size() const { return static_cast<int64_t>(n_); }

  // Where position i, 0 <= i < n, goes.
  int64_t operator()(int64_t i) const {
    ensure(i >= 0 && static_cast<uint64_t>(i) < n_, "position outside the permutation");
    auto x = static_cast<uint64_t>(i);
    do {
      x = encrypt(x);
    } while (x >= n_);
    return static_cast<int64_t>(x);
  }

 private:
  static constexpr size_t kRounds = 8;  // even: the halves, which may differ by a bit, end up where they began

  static uint64_t mix(uint64_t x) {  // the finaliser of MurmurHash3
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdull;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53ull;
    return x ^ (x >> 33);
  }

  uint64_t encrypt(uint64_t x) const {
    uint64_t left = x >> right_bits_, right = x & ((uint64_t{1} << right_bits_) - 1);
    for (size_t r = 0; r < kRounds; r += 2) {
      left ^= mix(right ^ keys_[r]) & ((uint64_t{1} << left_bits_) - 1);
      right ^= mix(left ^ keys_[r + 1]) & ((uint64_t{1} << right_bits_) - 1);
    }
    return left << right_bits_ | right;
  }

  uint64_t n_;
  int left_bits_ = 0, right_bits_ = 0;
  std::array<uint64_t, kRounds> keys_{};
};

}  // namespace trainctl
