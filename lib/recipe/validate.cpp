// lib/recipe/validate.cpp -- all rules that need no world size, in the order of the sections.
#include <fmt/format.h>

#include "recipe/rules.h"

namespace trainctl {

std::vector<Fault> validate(const Recipe& recipe, const ConfigSource& source) {
  RuleBook book{recipe, source, {}};
  check_model(book);
  check_parallelism(book);
  check_training(book);
  check_batch(book);
  return std::move(book.faults);
}

std::string nearest_divisors(int64_t n, int64_t wanted) {
  int64_t below = 0, above = 0;
  const auto offer = [&](int64_t d) {
    if (d <= wanted && d > below) below = d;
    if (d >= wanted && (above == 0 || d < above)) above = d;
  };
  for (int64_t d = 1; d * d <= n; ++d)
    if (n % d == 0) {
      offer(d);
      offer(n / d);
    }
  if (below == above || above == 0) return fmt::format("{}", below);
  return below == 0 ? fmt::format("{}", above) : fmt::format("{} or {}", below, above);
}

std::string nearest_multiples(int64_t n, int64_t wanted) {
  const int64_t below = wanted / n * n;
  if (below == wanted) return fmt::format("{}", below);
  return below == 0 ? fmt::format("{}", n) : fmt::format("{} or {}", below, below + n);
}

}  // namespace trainctl
