// kernels/residual/residual.cpp -- checks the contracts and hands the CPU kernels plain pointers.
#include <cmath>

#include "kernels/common/entry.h"
#include "kernels/cpu_entries.h"
#include "kernels/residual/residual_cpu.h"

namespace trainctl::kernels {
namespace {

template <void (*run)(const AddCpu&)>
void add_entry(const Add& a, Stream& stream) {
  const bool bf16 = is_bf16(a.y, "add");
  ensure(a.a.shape == a.y.shape && a.b.shape == a.y.shape && a.a.dtype == a.y.dtype && a.b.dtype == a.y.dtype &&
             contiguous(a.a) && contiguous(a.b) && contiguous(a.y),
         "add: a, b and y must be contiguous, of one shape and dtype");
  const AddCpu k{.a = a.a.data, .b = a.b.data, .y = a.y.data, .n = a.y.numel(), .bf16 = bf16};
  stream.enqueue([k] { run(k); });
}

template <void (*run)(const DropoutCpu&)>
void dropout_entry(const Dropout& a, Stream& stream) {
  const bool bf16 = is_bf16(a.y, "dropout");
  ensure(a.x.rank() == 2 && a.x.shape == a.y.shape && a.x.dtype == a.y.dtype && contiguous(a.x) && contiguous(a.y),
         "dropout: x and y must be contiguous [T, C] of one dtype");
  ensure(a.probability >= 0 && a.probability <= 1, "dropout: the probability lies outside [0, 1]");
  ensure(a.run >= 1, "dropout: run must be at least 1");
  const DropoutCpu k{.x = a.x.data,
                     .y = a.y.data,
                     .rows = a.x.dim(0),
                     .channels = a.x.dim(1),
                     .key = a.key,
                     .site = a.site,
                     .threshold = static_cast<uint64_t>(std::llround(a.probability * 4294967296.0)),
                     .scale = static_cast<float>(1.0 / (1.0 - a.probability)),
                     .token_begin = a.token_begin,
                     .run = a.run,
                     .jump = a.jump,
                     .bf16 = bf16};
  stream.enqueue([k] { run(k); });
}

}  // namespace

void add_residual(KernelTable& table, Level level) {
  table.set<Add>(TRAINCTL_PICK(level, add_entry, add));
  table.set<Dropout>(TRAINCTL_PICK(level, dropout_entry, dropout));
}

}  // namespace trainctl::kernels
