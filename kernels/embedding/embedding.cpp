// kernels/embedding/embedding.cpp -- checks the contract and hands the CPU kernels plain pointers.
#include "kernels/common/entry.h"
#include "kernels/cpu_entries.h"
#include "kernels/embedding/embedding_cpu.h"

namespace trainctl::kernels {
namespace {

template <void (*run)(const EmbeddingForwardCpu&)>
void forward_entry(const EmbeddingForward& a, Stream& stream) {
  is_bf16(a.y, "embedding_forward");
  ensure(a.weight.rank() == 2 && a.y.rank() == 2 && a.ids.numel() == a.y.dim(0) && a.weight.dim(1) == a.y.dim(1) &&
             a.weight.dtype == a.y.dtype,
         "embedding_forward: ids [T], weight [rows, D] and y [T, D] do not fit together");
  ensure(contiguous(a.ids) && contiguous(a.weight) && contiguous(a.y), "embedding_forward: a view is not contiguous");
  if (a.y.numel() == 0) return;
  const EmbeddingForwardCpu k{.ids = a.ids.as<int32_t>(),
                              .weight = static_cast<const char*>(a.weight.data),
                              .y = static_cast<char*>(a.y.data),
                              .tokens = a.y.dim(0),
                              .rows = a.weight.dim(0),
                              .row_begin = a.row_begin,
                              .row_bytes = a.y.dim(1) * size_of(a.y.dtype)};
  stream.enqueue([k] { run(k); });
}

template <void (*run)(const EmbeddingBackwardCpu&)>
void backward_entry(const EmbeddingBackward& a, Stream& stream) {
  ensure(a.dweight.rank() == 2 && a.dy.rank() == 2 && a.ids.numel() == a.dy.dim(0) && a.dweight.dim(1) == a.dy.dim(1),
         "embedding_backward: ids [T], dy [T, D] and dweight [rows, D] do not fit together");
  ensure(contiguous(a.ids) && contiguous(a.dweight) && contiguous(a.dy),
         "embedding_backward: a view is not contiguous");
  if (a.dy.numel() == 0) return;
  const EmbeddingBackwardCpu k{.ids = a.ids.as<int32_t>(),
                               .dy = a.dy.data,
                               .dweight = a.dweight.as<float>(),
                               .tokens = a.dy.dim(0),
                               .rows = a.dweight.dim(0),
                               .row_begin = a.row_begin,
                               .cols = a.dy.dim(1),
                               .bf16 = is_bf16(a.dy, "embedding_backward")};
  stream.enqueue([k] { run(k); });
}

}  // namespace

void add_embedding(KernelTable& table, Level level) {
  table.set<EmbeddingForward>(TRAINCTL_PICK(level, forward_entry, embedding_forward));
  table.set<EmbeddingBackward>(TRAINCTL_PICK(level, backward_entry, embedding_backward));
}

}  // namespace trainctl::kernels
