// lib/base/units.h -- checked 64-bit arithmetic and human-readable numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace trainctl {

inline int64_t checked_mul(int64_t a, int64_t b) {
  int64_t r = 0;
  ensure(!__builtin_mul_overflow(a, b, &r), "64-bit overflow in a product");
  return r;
}
inline int64_t checked_add(int64_t a, int64_t b) {
  int64_t r = 0;
  ensure(!__builtin_add_overflow(a, b, &r), "64-bit overflow in a sum");
  return r;
}
inline constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline constexpr int64_t round_up(int64_t a, int64_t multiple) { return ceil_div(a, multiple) * multiple; }

// Part `index` of `total` things cut into `parts` runs whose sizes differ by at most one, larger runs first.
struct Span64 {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const Span64&) const = default;
};
inline Span64 even_split(int64_t total, int64_t parts, int64_t index) {
  const int64_t base = total / parts, extra = total % parts;
  const int64_t begin = index * base + (index < extra ? index : extra);
  return {begin, begin + base + (index < extra ? 1 : 0)};
}

// "1 rank", "2 ranks", "0 ranks": a count with its noun, given in the singular; `plural` where adding an s is wrong.
std::string counted(int64_t n, std::string_view noun, std::string_view plural = {});

std::string human_bytes(int64_t bytes);     // "1.50 GiB"
std::string human_count(double count);      // "124.4 M", "1.2 T"
std::string human_seconds(double seconds);  // "850 ms", "12.3 s", "3 m 20 s", "2 h 05 m"

}  // namespace trainctl
