// lib/runtime/runtime_config.h -- the recipe's "runtime" section: steps, batch, device, precision policy.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/config_visitor.h"

namespace trainctl {

struct RuntimeConfig {
  std::string device = "cpu";  // cpu | cuda
  int64_t seed = 1234;
  int64_t steps = 0;
  // Any two of these three; the third is derived:
  // global_batch_size = micro_batch_size * micro_batches * data_parallel.
  std::optional<int64_t> micro_batch_size, micro_batches, global_batch_size;
  std::string precision = "f32";   // f32 | bf16
  std::string recompute = "none";  // none | full
  int64_t eval_every_steps = 0;    // 0: never
  int64_t eval_batches = 8;        // global batches per evaluation
  double watchdog_s = 600;
  double startup_limit_s = 600;
  int64_t threads_per_rank = 0;  // 0: cores / local ranks
  bool log_layer_norms = false;  // per-layer gradient norms in metrics.jsonl
  void describe(ConfigVisitor& v);
};

}  // namespace trainctl
