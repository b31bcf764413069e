// lib/base/units.cpp -- numbers for people.
#include "base/units.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace trainctl {
namespace {

std::string three_digits(double x) {
  const double size = std::abs(x);
  return size < 9.995 ? fmt::format("{:.2f}", x) : size < 99.95 ? fmt::format("{:.1f}", x) : fmt::format("{:.0f}", x);
}

}  // namespace

std::string counted(int64_t n, std::string_view noun, std::string_view plural) {
  if (n == 1) return fmt::format("1 {}", noun);
  return plural.empty() ? fmt::format("{} {}s", n, noun) : fmt::format("{} {}", n, plural);
}

std::string human_bytes(int64_t bytes) {
  constexpr std::array<const char*, 7> units = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes > -1024 && bytes < 1024) return fmt::format("{} B", bytes);
  double x = static_cast<double>(bytes);
  size_t unit = 0;
  while (std::abs(x) >= 1023.5 && unit + 1 < units.size()) {
    x /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", three_digits(x), units[unit]);
}

std::string human_count(double count) {
  constexpr std::array<const char*, 7> units = {"", " K", " M", " G", " T", " P", " E"};
  if (!std::isfinite(count)) return fmt::format("{}", count);
  if (std::abs(count) < 999.5) return fmt::format("{:.3g}", count);
  size_t unit = 0;
  while (std::abs(count) >= 999.95 && unit + 1 < units.size()) {
    count /= 1000;
    ++unit;
  }
  return fmt::format("{:.1f}{}", count, units[unit]);
}

std::string human_seconds(double seconds) {
  if (!std::isfinite(seconds)) return fmt::format("{}", seconds);
  if (seconds < 0) return "-" + human_seconds(-seconds);
  if (seconds < 0.9995e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 0.9995) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const int64_t whole = std::llround(seconds);
  if (whole < 3600) return fmt::format("{} m {:02} s", whole / 60, whole % 60);
  if (whole < 48 * 3600) return fmt::format("{} h {:02} m", whole / 3600, whole % 3600 / 60);
  return fmt::format("{} d {:02} h", whole / 86400, whole % 86400 / 3600);
}

}  // namespace trainctl
