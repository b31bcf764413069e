// lib/recipe/batch.cpp -- the batch equation.
#include "recipe/batch.h"

#include <fmt/format.h>

#include "recipe/rules.h"

namespace trainctl {
namespace {

constexpr int64_t kMaxBatch = (int64_t{1} << 31) - 1;

int64_t product(int64_t a, int64_t b) {
  int64_t r = 0;
  return __builtin_mul_overflow(a, b, &r) ? INT64_MAX : r;
}

std::string term(const std::optional<int64_t>& n) { return n ? fmt::format("{}", *n) : "?"; }

std::string equation(const RuntimeConfig& r, int64_t data_parallel) {
  return fmt::format("global_batch_size {} = micro_batch_size {} x micro_batches {} x data_parallel {}",
                     term(r.global_batch_size), term(r.micro_batch_size), term(r.micro_batches), data_parallel);
}

}  // namespace

BatchNumbers solve_batch(const RuntimeConfig& r, int64_t data_parallel) {
  BatchNumbers b;
  const auto refuse = [&](const char* key, std::string why) {
    b.fault_key = key;
    b.fault = std::move(why);
    return b;
  };
  if (!r.micro_batch_size && !r.micro_batches && !r.global_batch_size)
    return refuse("runtime.global_batch_size",
                  "no batch is given: set two of micro_batch_size, micro_batches and global_batch_size (or one: the "
                  "micro-batch is then one sequence), with global_batch_size = micro_batch_size x micro_batches x "
                  "data_parallel");
  if (r.global_batch_size) {
    const int64_t global = *r.global_batch_size;
    b.global_batch_size = global;
    if (r.micro_batch_size && r.micro_batches) {
      b.micro_batch_size = *r.micro_batch_size;
      b.micro_batches = *r.micro_batches;
      const int64_t pass = product(*r.micro_batch_size, data_parallel);
      const int64_t right = product(pass, *r.micro_batches);
      if (right == global) return b;
      return refuse(
          "runtime.global_batch_size",
          fmt::format("{} does not hold: the right side is {}; set global_batch_size to {}{}, or leave one of "
                      "the three out",
                      equation(r, data_parallel), right, right,
                      global % pass == 0 ? fmt::format(", or micro_batches to {}", global / pass) : ""));
    }
    // One factor is known (or is 1 by default): the other must be whole.
    const bool passes_known = r.micro_batches.has_value();
    const int64_t known = passes_known ? *r.micro_batches : r.micro_batch_size.value_or(1);
    const int64_t divisor = product(known, data_parallel);
    if (global % divisor == 0) {
      b.micro_batches = passes_known ? known : global / divisor;
      b.micro_batch_size = passes_known ? global / divisor : known;
      return b;
    }
    std::string advice = fmt::format("the nearest legal global_batch_size: {}", nearest_multiples(divisor, global));
    const bool factor_given = passes_known || r.micro_batch_size;
    if (factor_given && global % data_parallel == 0)
      advice += fmt::format("; or {}: {}", passes_known ? "micro_batches" : "micro_batch_size",
                            nearest_divisors(global / data_parallel, known));
    if (global % known == 0)
      advice += fmt::format("; or data_parallel: {}", nearest_divisors(global / known, data_parallel));
    RuntimeConfig shown = r;
    if (!factor_given) shown.micro_batch_size = 1;
    return refuse(
        "runtime.global_batch_size",
        fmt::format("{} has no whole solution: {} / ({} x {}) = {:.4g}; {}", equation(shown, data_parallel), global,
                    known, data_parallel, static_cast<double>(global) / static_cast<double>(divisor), advice));
  }
  b.micro_batch_size = r.micro_batch_size.value_or(1);
  b.micro_batches = r.micro_batches.value_or(1);
  b.global_batch_size = product(product(b.micro_batch_size, b.micro_batches), data_parallel);
  if (b.global_batch_size > kMaxBatch)
    return refuse(
        r.micro_batch_size ? "runtime.micro_batch_size" : "runtime.micro_batches",
        fmt::format("micro_batch_size {} x micro_batches {} x data_parallel {} = {} sequences per step is more "
                    "than {}",
                    b.micro_batch_size, b.micro_batches, data_parallel, b.global_batch_size, kMaxBatch));
  return b;
}

void check_batch(RuleBook& book) {
  if (!book.usable({"runtime.micro_batch_size", "runtime.micro_batches", "runtime.global_batch_size",
                    "parallelism.data_parallel"}))
    return;
  const RuntimeConfig& r = book.recipe.runtime;
  const std::optional<int64_t> given = book.recipe.parallelism.data_parallel.value;
  // With "fill" only what no data_parallel could repair is a fault here; the rest waits for the world size.
  const bool all = r.micro_batch_size && r.micro_batches && r.global_batch_size;
  int64_t data_parallel = given.value_or(1);
  if (!given && all) {
    const int64_t pass = product(*r.micro_batch_size, *r.micro_batches);
    if (*r.global_batch_size % pass == 0) data_parallel = *r.global_batch_size / pass;
  }
  const BatchNumbers b = solve_batch(r, data_parallel);
  if (b.fault.empty()) return;
  const bool none = !r.micro_batch_size && !r.micro_batches && !r.global_batch_size;
  book.fault(b.fault_key, given || none ? b.fault : b.fault + " (data_parallel is \"fill\", which is at least 1)");
}

}  // namespace trainctl
