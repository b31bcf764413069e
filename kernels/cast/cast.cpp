// kernels/cast/cast.cpp -- checks the contract and hands the CPU kernel plain pointers.
#include "kernels/cast/cast_cpu.h"
#include "kernels/common/entry.h"
#include "kernels/cpu_entries.h"

namespace trainctl::kernels {
namespace {

template <void (*run)(const CastCpu&)>
void cast_entry(const Cast& a, Stream& stream) {
  ensure(a.x.shape == a.y.shape, "cast: x and y differ in shape");
  if (a.x.numel() == 0) return;
  CastCpu k{.x = a.x.data,
            .y = a.y.data,
            .rows = 1,
            .cols = a.x.numel(),
            .x_stride = 0,
            .y_stride = 0,
            .x_bf16 = is_bf16(a.x, "cast"),
            .y_bf16 = is_bf16(a.y, "cast")};
  if (!contiguous(a.x) || !contiguous(a.y)) {
    ensure(a.x.rank() == 2 && row_contiguous(a.x) && row_contiguous(a.y),
           "cast: a strided view needs two dimensions and a last stride of 1");
    k.rows = a.x.dim(0), k.cols = a.x.dim(1), k.x_stride = a.x.stride(0), k.y_stride = a.y.stride(0);
  }
  stream.enqueue([k] { run(k); });
}

}  // namespace

void add_cast(KernelTable& table, Level level) { table.set<Cast>(TRAINCTL_PICK(level, cast_entry, cast)); }

}  // namespace trainctl::kernels
