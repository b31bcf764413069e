// lib/base/philox.h -- Philox4x32-10: random numbers as a pure function of (key, counter), so that they depend on what
// is asked for and never on who asks. Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace trainctl {

inline std::array<uint32_t, 4> philox(uint64_t key, uint64_t counter_high, uint64_t counter_low) {
  std::array<uint32_t, 4> c = {static_cast<uint32_t>(counter_low), static_cast<uint32_t>(counter_low >> 32),
                               static_cast<uint32_t>(counter_high), static_cast<uint32_t>(counter_high >> 32)};
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c[0], p1 = uint64_t{0xCD9E8D57u} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

// Uniform in (0, 1): never 0, never 1.
inline double unit_interval(uint32_t bits) { return (static_cast<double>(bits) + 0.5) * (1.0 / 4294967296.0); }

// Standard normal number `index` of stream (key, stream), by Box-Muller in f64; the same on every machine with IEEE
// libm to the last place of f32 almost always: results are rounded to f32 by the caller.
inline double philox_normal(uint64_t key, uint64_t stream, uint64_t index) {
  const auto r = philox(key, stream, index >> 1);
  const double u = unit_interval(r[0]), v = unit_interval(r[1]);
  const double radius = std::sqrt(-2.0 * std::log(u)), angle = 6.283185307179586476925 * v;
  return radius * ((index & 1) ? std::sin(angle) : std::cos(angle));
}

// A stable 64-bit name hash (FNV-1a, then a mix), for streams keyed by parameter name.
inline uint64_t stream_of(std::string_view text) {
  uint64_t h = 0xcbf29ce484222325ull;
  for (const char ch : text) h = (h ^ static_cast<unsigned char>(ch)) * 0x100000001b3ull;
  h ^= h >> 33;
  h *= 0xff51afd7ed558ccdull;
  h ^= h >> 33;
  return h;
}

}  // namespace trainctl
