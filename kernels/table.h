// kernels/table.h -- the table of kernels a device offers, keyed by contract. An absent kernel is null and is refused
// by name when asked for.
#pragma once

#include <tuple>

#include "device/device.h"
#include "kernels/adamw/adamw.h"
#include "kernels/attention/attention.h"
#include "kernels/cast/cast.h"
#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/embedding/embedding.h"
#include "kernels/gelu/gelu.h"
#include "kernels/gemm/gemm.h"
#include "kernels/init/init.h"
#include "kernels/layernorm/layernorm.h"
#include "kernels/reduce/reduce.h"
#include "kernels/residual/residual.h"
#include "kernels/rmsnorm/rmsnorm.h"
#include "kernels/rope/rope.h"
#include "kernels/sgd/sgd.h"
#include "kernels/swiglu/swiglu.h"

namespace trainctl::kernels {

template <class Args>
using KernelFunction = void (*)(const Args&, Stream&);

// Work a kernel declares: multiplications and additions of matrix products and attention; elementwise work counts 0.
template <class Args>
int64_t flops_of(const Args& args) {
  if constexpr (requires { flops(args); })
    return flops(args);
  else
    return 0;
}

template <class... Args>
struct BasicKernelTable {
  std::tuple<KernelFunction<Args>...> entries{};

  template <class A>
  void set(KernelFunction<A> f) {
    std::get<KernelFunction<A>>(entries) = f;
  }
  template <class A>
  KernelFunction<A> get() const {
    return std::get<KernelFunction<A>>(entries);
  }
};
using KernelTable =
    BasicKernelTable<Gemm, EmbeddingForward, EmbeddingBackward, LayerNormForward, LayerNormBackward, RmsNormForward,
                     RmsNormBackward, Rope, AttentionForward, AttentionBackward, GeluForward, GeluBackward,
                     SwigluForward, SwigluBackward, Add, Dropout, CrossEntropyMax, CrossEntropySum, CrossEntropyLoss,
                     CrossEntropyGrad, AdamW, Sgd, SumOfSquares, ColumnSum, Cast, InitNormal, InitConstant>;

// All kernels of the CPU, each at the best vector width this processor has (AVX-512, AVX2, portable).
KernelTable cpu_kernels();
std::string_view cpu_vector_level();  // "avx512", "avx2", "portable"
// For tests: the same table at a named level; throws Error{environment} when this processor lacks it.
KernelTable cpu_kernels_at(std::string_view level);

}  // namespace trainctl::kernels
