// kernels/sgd/sgd.cpp -- checks the contract and hands the CPU kernel plain pointers.
#include "kernels/common/entry.h"
#include "kernels/cpu_entries.h"
#include "kernels/sgd/sgd_cpu.h"

namespace trainctl::kernels {
namespace {

template <void (*run)(const SgdCpu&)>
void sgd_entry(const Sgd& a, Stream& stream) {
  const int64_t n = a.master.numel();
  ensure(a.grad.numel() == n && (!a.buffer || a.buffer.numel() == n) && (!a.weight || a.weight.numel() == n),
         "sgd: master, grad, buffer and weight differ in size");
  ensure(contiguous(a.master) && contiguous(a.grad) && contiguous(a.buffer) && contiguous(a.weight),
         "sgd: a view is not contiguous");
  const SgdCpu k{.master = a.master.as<float>(),
                 .buffer = a.buffer ? a.buffer.as<float>() : nullptr,
                 .weight = a.weight ? &a.weight.as<bf16>()->bits : nullptr,
                 .grad = a.grad.as<float>(),
                 .n = n,
                 .lr = static_cast<float>(a.lr),
                 .momentum = static_cast<float>(a.momentum),
                 .weight_decay = static_cast<float>(a.weight_decay),
                 .grad_scale = a.grad_scale};
  stream.enqueue([k] { run(k); });
}

}  // namespace

void add_sgd(KernelTable& table, Level level) { table.set<Sgd>(TRAINCTL_PICK(level, sgd_entry, sgd)); }

}  // namespace trainctl::kernels
