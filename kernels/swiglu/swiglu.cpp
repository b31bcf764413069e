// kernels/swiglu/swiglu.cpp -- checks the contract and hands the CPU kernels plain pointers.
#include "kernels/common/entry.h"
#include "kernels/cpu_entries.h"
#include "kernels/swiglu/swiglu_cpu.h"

namespace trainctl::kernels {
namespace {

template <class A, class B>
void check(const A& gate_up, const B& y, const char* text) {
  ensure(gate_up.rank() == 2 && y.rank() == 2 && gate_up.dim(0) == y.dim(0) && gate_up.dim(1) == 2 * y.dim(1) &&
             contiguous(gate_up) && contiguous(y) && gate_up.dtype == y.dtype,
         text);
}

template <void (*run)(const SwigluForwardCpu&)>
void forward_entry(const SwigluForward& a, Stream& stream) {
  check(a.gate_up, a.y, "swiglu_forward: gate_up must be [T, 2F] and y [T, F], contiguous, of one dtype");
  const SwigluForwardCpu k{.gate_up = a.gate_up.data,
                           .y = a.y.data,
                           .rows = a.y.dim(0),
                           .cols = a.y.dim(1),
                           .bf16 = is_bf16(a.y, "swiglu_forward")};
  stream.enqueue([k] { run(k); });
}

template <void (*run)(const SwigluBackwardCpu&)>
void backward_entry(const SwigluBackward& a, Stream& stream) {
  const char* text = "swiglu_backward: gate_up and dgate_up must be [T, 2F] and dy [T, F], contiguous, of one dtype";
  check(a.gate_up, a.dy, text);
  check(a.dgate_up, a.dy, text);
  const SwigluBackwardCpu k{.gate_up = a.gate_up.data,
                            .dy = a.dy.data,
                            .dgate_up = a.dgate_up.data,
                            .rows = a.dy.dim(0),
                            .cols = a.dy.dim(1),
                            .bf16 = is_bf16(a.dy, "swiglu_backward")};
  stream.enqueue([k] { run(k); });
}

}  // namespace

void add_swiglu(KernelTable& table, Level level) {
  table.set<SwigluForward>(TRAINCTL_PICK(level, forward_entry, swiglu_forward));
  table.set<SwigluBackward>(TRAINCTL_PICK(level, backward_entry, swiglu_backward));
}

}  // namespace trainctl::kernels
