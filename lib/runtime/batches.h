// lib/runtime/batches.h -- the micro-batches of one step on this data rank, in device memory.
#pragma once

#include <vector>

#include "model/module.h"
#include "runtime/batch_source.h"

namespace trainctl {

struct BatchShape {
  int64_t micro_batches = 0, micro_batch_size = 0, sequence = 0;
  int64_t data_parallel = 1, data_rank = 0;
  bool document_mask = false;
  int64_t global_batch() const { return micro_batches * micro_batch_size * data_parallel; }
};

// Sample j of micro-batch m on data rank d is number (m data_parallel + d) micro_batch_size + j of the global batch:
// the same samples in every layout. Buffers are allocated once.
class Batches {
 public:
  Batches(Context& context, const BatchShape& shape);
  // Loads the global batch that starts at sample `first`; returns how many labels count here (all, without a source).
  int64_t load(BatchSource* source, SampleSplit split, int64_t first);
  const Batch& micro_batch(int m) const { return batches_[static_cast<size_t>(m)]; }

 private:
  Context& context_;
  BatchShape shape_;
  Tensor tokens_, labels_, positions_, document_start_;
  std::vector<Batch> batches_;
  std::vector<int32_t> host_;
};

}  // namespace trainctl
