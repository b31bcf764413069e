// lib/parallel/strategies/data.cpp -- see the header.
#include "parallel/strategies/data.h"

namespace trainctl {

GradientReducer::GradientReducer(Context& context, ProcessGroup& data_group, const FlatLayout& layout, Tensor grads,
                                 int64_t bucket_bytes, bool overlap)
    : context_(context), group_(data_group), grads_(std::move(grads)), overlap_(overlap) {
  const auto modules = static_cast<int>(layout.module_range.size());
  int64_t end = layout.elements;
  for (int m = modules - 1; m >= 0; --m) {
    const int64_t begin = layout.module_range[static_cast<size_t>(m)].begin;
    if ((end - begin) * size_of(DType::f32) < bucket_bytes && m > 0) continue;
    buckets_.push_back({begin, end});
    bucket_ends_with_.push_back(m);
    end = begin;
  }
}

void GradientReducer::start(size_t bucket) {
  const Span64 range = buckets_[bucket];
  pending_.push_back(group_.all_reduce(grads_.flat_slice(range.begin, {range.size()}), Reduce::sum, context_.stream()));
}

void GradientReducer::module_done(int module) {
  if (group_.size() == 1 || !overlap_) return;
  while (next_ < buckets_.size() && bucket_ends_with_[next_] >= module) start(next_++);
}

void GradientReducer::finish() {
  if (group_.size() == 1) return;
  context_.place("reduce gradients");
  while (next_ < buckets_.size()) start(next_++);
  for (Pending& p : pending_) p.wait_on(context_.stream());
  pending_.clear();
  next_ = 0;
}

}  // namespace trainctl
