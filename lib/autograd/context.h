// lib/autograd/context.h -- where work runs: the device, its kernels and stream, the arena, and the FLOP counter.
#pragma once

#include <functional>
#include <initializer_list>

#include "kernels/table.h"
#include "tensor/tensor.h"

namespace trainctl {

class Context {
 public:
  // On a shape_only device no kernel is called: everything is counted, nothing is computed.
  Context(Arena& arena, kernels::KernelTable table, Stream& stream);

  Arena& arena() const { return arena_; }
  Device& device() const { return arena_.device(); }
  Stream& stream() const { return stream_; }
  bool shape_only() const { return shape_only_; }

  // Runs one kernel on the stream and counts its FLOPs. Throws Error{environment} when the device lacks the kernel.
  template <class Args>
  void run(const Args& args) {
    flops_ += kernels::flops_of(args);
    if (shape_only_) return;
    const auto kernel = table_.get<Args>();
    if (!kernel) refuse_kernel(Args::name);
    kernel(args, stream_);
  }

  Tensor empty(Shape shape, DType dtype, MemoryCategory category = MemoryCategory::activations) const {
    return Tensor(arena_, shape, dtype, category);
  }
  Tensor empty_like(const Tensor& x) const { return empty(x.shape(), x.dtype()); }
  // To be written in place: `x` itself when nobody else holds its storage, else a copy of it (contiguous).
  Tensor own(const Tensor& x) const;
  void zero(const Tensor& x) const;                       // contiguous
  void copy(const Tensor& from, const Tensor& to) const;  // same dtype and shape, contiguous

  int64_t flops() const { return flops_; }

  // Tells who watches (a flight recorder) what this thread is about to do: a static string and a layer, or -1.
  void place(const char* what, int layer = -1) const {
    if (on_place) on_place(what, layer);
  }
  std::function<void(const char*, int)> on_place;

 private:
  [[noreturn]] void refuse_kernel(const char* kernel) const;
  Arena& arena_;
  kernels::KernelTable table_;
  Stream& stream_;
  bool shape_only_;
  int64_t flops_ = 0;
};

}  // namespace trainctl
