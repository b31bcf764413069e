// lib/recipe/batch.h -- global_batch_size = micro_batch_size x micro_batches x data_parallel, any two give the third.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/runtime_config.h"

namespace trainctl {

struct BatchNumbers {
  int64_t micro_batch_size = 0, micro_batches = 0, global_batch_size = 0;
  std::string fault;  // not empty: the equation has no solution; says so with all numbers and the nearest legal ones
  std::string fault_key;  // the runtime key the fault is best reported at
};

// Of the three numbers given, with data_parallel >= 1. One alone is enough: micro_batch_size is then 1, or
// micro_batches is 1 when only micro_batch_size is given. None is a fault.
BatchNumbers solve_batch(const RuntimeConfig& runtime, int64_t data_parallel);

}  // namespace trainctl
