// lib/runtime/batches.cpp -- from global sample numbers to device tensors.
#include "runtime/batches.h"

#include <algorithm>

namespace trainctl {

Batches::Batches(Context& context, const BatchShape& shape) : context_(context), shape_(shape) {
  const int64_t rows = shape.micro_batch_size * shape.sequence;
  const auto make = [&] { return context.empty({shape.micro_batches, rows}, DType::i32, MemoryCategory::other); };
  tokens_ = make();
  labels_ = make();
  positions_ = make();
  if (shape.document_mask) document_start_ = make();
  for (int64_t m = 0; m < shape.micro_batches; ++m) {
    Batch b;
    b.batch = shape.micro_batch_size;
    b.sequence = shape.sequence;
    b.tokens = tokens_.flat_slice(m * rows, {rows});
    b.labels = labels_.flat_slice(m * rows, {rows});
    b.positions = positions_.flat_slice(m * rows, {rows});
    if (document_start_) b.document_start = document_start_.flat_slice(m * rows, {b.batch, b.sequence});
    b.first_token = (m * shape.data_parallel + shape.data_rank) * rows;
    batches_.push_back(std::move(b));
  }
  if (!context.shape_only()) host_.resize(static_cast<size_t>(4 * rows));
}

int64_t Batches::load(BatchSource* source, SampleSplit split, int64_t first) {
  const int64_t rows = shape_.micro_batch_size * shape_.sequence;
  if (context_.shape_only()) return rows * shape_.micro_batches;
  ensure(source != nullptr, "a runtime that computes has no batch source");
  int64_t counted = 0;
  int32_t* tokens = host_.data();
  const SampleBuffers buffers{tokens, tokens + rows, tokens + 2 * rows,
                              shape_.document_mask ? tokens + 3 * rows : nullptr};
  for (const Batch& b : batches_) {
    source->fill(split, first + b.first_token / shape_.sequence, shape_.micro_batch_size, buffers);
    counted += std::count_if(buffers.labels, buffers.labels + rows, [](int32_t label) { return label >= 0; });
    const auto upload = [&](const Tensor& to, const int32_t* from) {
      context_.device().copy_from_host(to.data(), from, to.bytes(), context_.stream());
    };
    upload(b.tokens, buffers.tokens);
    upload(b.labels, buffers.labels);
    upload(b.positions, buffers.positions);
    if (b.document_start) upload(b.document_start, buffers.document_start);
    context_.stream().synchronize();  // the host buffers are filled again for the next micro-batch
  }
  return counted;
}

}  // namespace trainctl
