// lib/autograd/context.cpp -- small helpers over the device.
#include "autograd/context.h"

#include <fmt/format.h>

#include "base/error.h"

namespace trainctl {

Context::Context(Arena& arena, kernels::KernelTable table, Stream& stream)
    : arena_(arena), table_(table), stream_(stream), shape_only_(arena.device().kind() == DeviceKind::shape_only) {}

Tensor Context::own(const Tensor& x) const {
  if (x.unique()) return x;
  Tensor mine = empty_like(x);
  copy(x, mine);
  return mine;
}

void Context::zero(const Tensor& x) const {
  ensure(x.contiguous(), "zero of a tensor that is not contiguous");
  device().zero(x.data(), x.bytes(), stream_);
}

void Context::copy(const Tensor& from, const Tensor& to) const {
  ensure(from.contiguous() && to.contiguous() && from.dtype() == to.dtype() && from.numel() == to.numel(),
         "copy between tensors that differ in dtype, size or layout");
  device().copy(to.data(), from.data(), from.bytes(), stream_);
}

void Context::refuse_kernel(const char* kernel) const {
  fail(ErrorKind::environment,
       fmt::format("the {} device has no kernel \"{}\"", trainctl::name(device().kind()), kernel));
}

}  // namespace trainctl
