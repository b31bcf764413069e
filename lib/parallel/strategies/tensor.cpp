// lib/parallel/strategies/tensor.cpp -- regions over the tensor group. Sources: Shoeybi et al. 2019 (tensor parallel),
// Korthikanti et al. 2022 (sequence parallel).
#include "parallel/strategies/tensor.h"

#include "parallel/comm_ops.h"

namespace trainctl {
namespace {

class TensorRegion final : public Region {
 public:
  explicit TensorRegion(ProcessGroup& group) : group_(group) {}
  Tensor enter(Tape& tape, const Tensor& x, int64_t) override { return all_reduce_backward(tape, x, group_); }
  Tensor leave(Tape& tape, const Tensor& x) override { return all_reduce_forward(tape, x, group_); }

 private:
  ProcessGroup& group_;
};

class SequenceRegion final : public Region {
 public:
  explicit SequenceRegion(ProcessGroup& group) : group_(group) {}
  Tensor enter(Tape& tape, const Tensor& x, int64_t total_rows) override {
    return all_gather_rows(tape, x, total_rows, group_);
  }
  Tensor leave(Tape& tape, const Tensor& x) override { return reduce_scatter_rows(tape, x, group_); }
  Span64 rows(int64_t total) const override { return even_split(total, group_.size(), group_.rank()); }

 private:
  ProcessGroup& group_;
};

class TensorVocabReducer final : public VocabReducer {
 public:
  explicit TensorVocabReducer(ProcessGroup& group) : group_(group) {}
  void maximum(const Tensor& x, Context& ctx) override {
    group_.all_reduce(x, Reduce::max, ctx.stream()).wait_on(ctx.stream());
  }
  void sum(const Tensor& x, Context& ctx) override {
    group_.all_reduce(x, Reduce::sum, ctx.stream()).wait_on(ctx.stream());
  }

 private:
  ProcessGroup& group_;
};

}  // namespace

void apply_tensor_parallelism(Module& module, ProcessGroup& group, bool sequence_parallel) {
  if (group.size() == 1) return;
  for (std::unique_ptr<Region>* region : module.regions()) {
    if (sequence_parallel)
      *region = std::make_unique<SequenceRegion>(group);
    else
      *region = std::make_unique<TensorRegion>(group);
  }
  if (auto* reducer = module.vocab_reducer()) *reducer = std::make_unique<TensorVocabReducer>(group);
}

}  // namespace trainctl
