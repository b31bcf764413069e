// kernels/gelu/gelu.cpp -- checks the contract and hands the CPU kernels plain pointers.
#include "kernels/common/entry.h"
#include "kernels/cpu_entries.h"
#include "kernels/gelu/gelu_cpu.h"

namespace trainctl::kernels {
namespace {

template <void (*run)(const GeluForwardCpu&)>
void forward_entry(const GeluForward& a, Stream& stream) {
  const bool bf16 = is_bf16(a.x, "gelu_forward");
  ensure(a.x.shape == a.y.shape && a.x.dtype == a.y.dtype && contiguous(a.x) && contiguous(a.y),
         "gelu_forward: x and y must be contiguous, of one shape and dtype");
  const GeluForwardCpu k{.x = a.x.data, .y = a.y.data, .n = a.x.numel(), .tanh_form = a.tanh_form, .bf16 = bf16};
  stream.enqueue([k] { run(k); });
}

template <void (*run)(const GeluBackwardCpu&)>
void backward_entry(const GeluBackward& a, Stream& stream) {
  const bool bf16 = is_bf16(a.x, "gelu_backward");
  ensure(a.x.shape == a.dy.shape && a.x.shape == a.dx.shape && a.x.dtype == a.dy.dtype && a.x.dtype == a.dx.dtype &&
             contiguous(a.x) && contiguous(a.dy) && contiguous(a.dx),
         "gelu_backward: x, dy and dx must be contiguous, of one shape and dtype");
  const GeluBackwardCpu k{
      .x = a.x.data, .dy = a.dy.data, .dx = a.dx.data, .n = a.x.numel(), .tanh_form = a.tanh_form, .bf16 = bf16};
  stream.enqueue([k] { run(k); });
}

}  // namespace

void add_gelu(KernelTable& table, Level level) {
  table.set<GeluForward>(TRAINCTL_PICK(level, forward_entry, gelu_forward));
  table.set<GeluBackward>(TRAINCTL_PICK(level, backward_entry, gelu_backward));
}

}  // namespace trainctl::kernels
