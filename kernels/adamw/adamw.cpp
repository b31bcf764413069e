// kernels/adamw/adamw.cpp -- checks the contract, computes the bias corrections in f64, hands on plain pointers.
#include <cmath>

#include "kernels/adamw/adamw_cpu.h"
#include "kernels/common/entry.h"
#include "kernels/cpu_entries.h"

namespace trainctl::kernels {
namespace {

template <void (*run)(const AdamWCpu&)>
void adamw_entry(const AdamW& a, Stream& stream) {
  const int64_t n = a.master.numel();
  ensure(a.grad.numel() == n && a.m.numel() == n && a.v.numel() == n && (!a.weight || a.weight.numel() == n),
         "adamw: master, grad, m, v and weight differ in size");
  ensure(contiguous(a.master) && contiguous(a.grad) && contiguous(a.m) && contiguous(a.v) && contiguous(a.weight),
         "adamw: a view is not contiguous");
  ensure(a.step >= 1, "adamw: steps count from 1");
  const double step = static_cast<double>(a.step);
  const AdamWCpu k{.master = a.master.as<float>(),
                   .m = a.m.as<float>(),
                   .v = a.v.as<float>(),
                   .weight = a.weight ? &a.weight.as<bf16>()->bits : nullptr,
                   .grad = a.grad.as<float>(),
                   .n = n,
                   .lr = static_cast<float>(a.lr),
                   .beta1 = static_cast<float>(a.beta1),
                   .rest1 = static_cast<float>(1.0 - a.beta1),
                   .beta2 = static_cast<float>(a.beta2),
                   .rest2 = static_cast<float>(1.0 - a.beta2),
                   .correction1 = static_cast<float>(1.0 / (1.0 - std::pow(a.beta1, step))),
                   .correction2 = static_cast<float>(1.0 / (1.0 - std::pow(a.beta2, step))),
                   .eps = static_cast<float>(a.eps),
                   .weight_decay = static_cast<float>(a.weight_decay),
                   .grad_scale = a.grad_scale};
  stream.enqueue([k] { run(k); });
}

}  // namespace

void add_adamw(KernelTable& table, Level level) { table.set<AdamW>(TRAINCTL_PICK(level, adamw_entry, adamw)); }

}  // namespace trainctl::kernels
