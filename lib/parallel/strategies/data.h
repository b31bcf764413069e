// lib/parallel/strategies/data.h -- data parallelism: flat gradient buckets, summed over the data group while the
// backward pass still runs.
#pragma once

#include <vector>

#include "autograd/context.h"
#include "comm/process_group.h"
#include "parallel/flat_layout.h"

namespace trainctl {

// Buckets are runs of whole modules from the last to the first, each closed when it holds at least bucket_bytes. They
// do not depend on `overlap`, so both settings give equal bits.
class GradientReducer {
 public:
  GradientReducer(Context& context, ProcessGroup& data_group, const FlatLayout& layout, Tensor grads,
                  int64_t bucket_bytes, bool overlap);

  // The gradients of module `module` are complete; called from the last module to the first, in the last micro-batch.
  void module_done(int module);
  // Waits until everything is reduced; starts what overlap == false held back.
  void finish();

  const std::vector<Span64>& buckets() const { return buckets_; }

 private:
  void start(size_t bucket);
  Context& context_;
  ProcessGroup& group_;
  Tensor grads_;
  bool overlap_;
  std::vector<Span64> buckets_;        // flat ranges, last modules first
  std::vector<int> bucket_ends_with_;  // the module whose completion closes the bucket
  size_t next_ = 0;
  std::vector<Pending> pending_;
};

}  // namespace trainctl
