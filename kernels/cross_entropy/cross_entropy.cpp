// kernels/cross_entropy/cross_entropy.cpp -- checks the contract and hands the CPU kernels plain pointers.
#include <cmath>

#include "kernels/common/entry.h"
#include "kernels/cpu_entries.h"
#include "kernels/cross_entropy/cross_entropy_cpu.h"

namespace trainctl::kernels {
namespace {

// A shard without columns has no storage: its views may be null.
template <class View>
void check_logits(const View& v, const char* text) {
  ensure(v.rank() == 2 && row_contiguous(v) && v.dtype == DType::f32, text);
}

template <void (*run)(const CrossEntropyMaxCpu&)>
void max_entry(const CrossEntropyMax& a, Stream& stream) {
  check_logits(a.logits, "cross_entropy_max: logits must be f32 [T, V] with a last stride of 1");
  ensure(a.maximum.numel() == a.logits.dim(0) && contiguous(a.maximum), "cross_entropy_max: maximum must be f32 [T]");
  const CrossEntropyMaxCpu k{.logits = a.logits.as<float>(),
                             .maximum = a.maximum.as<float>(),
                             .rows = a.logits.dim(0),
                             .cols = a.logits.dim(1),
                             .stride = a.logits.stride(0)};
  stream.enqueue([k] { run(k); });
}

template <void (*run)(const CrossEntropySumCpu&)>
void sum_entry(const CrossEntropySum& a, Stream& stream) {
  check_logits(a.logits, "cross_entropy_sum: logits must be f32 [T, V] with a last stride of 1");
  const int64_t rows = a.logits.dim(0);
  ensure(a.labels.numel() == rows && a.maximum.numel() == rows && a.sum.numel() == rows && a.target.numel() == rows,
         "cross_entropy_sum: labels, maximum, sum and target need T elements");
  const CrossEntropySumCpu k{.logits = a.logits.as<float>(),
                             .labels = a.labels.as<int32_t>(),
                             .maximum = a.maximum.as<float>(),
                             .sum = a.sum.as<float>(),
                             .target = a.target.as<float>(),
                             .rows = rows,
                             .cols = a.logits.dim(1),
                             .stride = a.logits.stride(0),
                             .column_begin = a.column_begin};
  stream.enqueue([k] { run(k); });
}

// One thread: rows are few next to their columns, and the order is the contract.
void loss_entry(const CrossEntropyLoss& a, Stream& stream) {
  const int64_t rows = a.labels.numel();
  ensure(a.sum.numel() == rows && a.target.numel() == rows && a.loss.numel() == 1,
         "cross_entropy_loss: sum and target need T elements, loss one f64");
  const int32_t* labels = a.labels.as<int32_t>();
  const float *sum = a.sum.as<float>(), *target = a.target.as<float>();
  double* loss = a.loss.as<double>();
  stream.enqueue([=] {
    double total = 0;
    for (int64_t t = 0; t < rows; ++t)
      if (labels[t] >= 0) total += std::log(static_cast<double>(sum[t])) - static_cast<double>(target[t]);
    *loss += total;
  });
}

template <void (*run)(const CrossEntropyGradCpu&)>
void grad_entry(const CrossEntropyGrad& a, Stream& stream) {
  check_logits(a.logits, "cross_entropy_grad: logits must be f32 [T, V] with a last stride of 1");
  const int64_t rows = a.logits.dim(0);
  ensure(a.labels.numel() == rows && a.maximum.numel() == rows && a.sum.numel() == rows,
         "cross_entropy_grad: labels, maximum and sum need T elements");
  ensure(!a.dlogits || (a.dlogits.shape == a.logits.shape && row_contiguous(a.dlogits)),
         "cross_entropy_grad: dlogits must have the shape of logits and a last stride of 1");
  if (a.logits.numel() == 0) return;
  const CrossEntropyGradCpu k{.logits = a.logits.as<float>(),
                              .labels = a.labels.as<int32_t>(),
                              .maximum = a.maximum.as<float>(),
                              .sum = a.sum.as<float>(),
                              .dlogits = a.dlogits ? &a.dlogits.as<bf16>()->bits : nullptr,
                              .rows = rows,
                              .cols = a.logits.dim(1),
                              .stride = a.logits.stride(0),
                              .dlogits_stride = a.dlogits ? a.dlogits.stride(0) : 0,
                              .column_begin = a.column_begin,
                              .scale = a.scale};
  stream.enqueue([k] { run(k); });
}

}  // namespace

void add_cross_entropy(KernelTable& table, Level level) {
  table.set<CrossEntropyMax>(TRAINCTL_PICK(level, max_entry, cross_entropy_max));
  table.set<CrossEntropySum>(TRAINCTL_PICK(level, sum_entry, cross_entropy_sum));
  table.set<CrossEntropyLoss>(&loss_entry);
  table.set<CrossEntropyGrad>(TRAINCTL_PICK(level, grad_entry, cross_entropy_grad));
}

}  // namespace trainctl::kernels
