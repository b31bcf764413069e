// lib/parallel/parallelism_config.h -- the recipe's "parallelism" section: degrees and strategies, no hardware.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/config_visitor.h"

namespace trainctl {

struct ParallelismConfig {
  int64_t tensor_parallel = 1;
  bool sequence_parallel = false;  // shards activations outside tensor regions along tokens, over the tensor axis
  int64_t pipeline_parallel = 1;
  int64_t context_parallel = 1;            // only 1 is built; others are refused by name
  int64_t expert_parallel = 1;             // only 1 is built; divides data_parallel
  IntOrWord data_parallel;                 // or "fill": world size / (tensor * pipeline * context)
  int64_t zero_stage = 0;                  // only 0 is built
  std::string pipeline_schedule = "1f1b";  // gpipe | 1f1b
  std::vector<int64_t> pipeline_layers;    // layers per stage; empty: balanced by cost
  std::string order = "tp-cp-ep-dp-pp";    // fastest varying axis first
  std::string grad_reduce_dtype = "f32";   // f32
  bool overlap_grad_reduce = true;         // reduce gradient buckets while the backward runs
  int64_t bucket_bytes = 8 << 20;          // smallest gradient bucket
  int64_t message_chunk_bytes = 1 << 20;   // collectives move at most this much per message
  void describe(ConfigVisitor& v);
};

}  // namespace trainctl
