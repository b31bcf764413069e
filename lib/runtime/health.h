// lib/runtime/health.h -- what to say when a loss or a norm is not finite: which rank, module, micro-batch and tensor.
#pragma once

#include <string>

#include "runtime/executor.h"

namespace trainctl {

// Every rank calls it after a step whose loss or norm was not finite. Looks, in this order, for a non-finite weight,
// the first module whose output is not finite (the forward pass runs once more), a non-finite gradient. Returns the
// finding of the first rank that has one, the same text on every rank, with that rank's number in `rank`.
struct Finding {
  int rank = 0;
  std::string text;
};
Finding find_non_finite(ShardedModel& model, Executor& executor, const StageProgram& program, const Batches& batches,
                        int micro_batches, PassOptions options);

}  // namespace trainctl
