// kernels/reduce/reduce.cpp -- checks the contracts and hands the CPU kernels plain pointers.
#include "kernels/common/entry.h"
#include "kernels/cpu_entries.h"
#include "kernels/reduce/reduce_cpu.h"

namespace trainctl::kernels {
namespace {

template <void (*run)(const SumOfSquaresCpu&)>
void squares_entry(const SumOfSquares& a, Stream& stream) {
  ensure(contiguous(a.x) && a.out.numel() == 1, "sum_of_squares: x must be contiguous, out one f64");
  const SumOfSquaresCpu k{.x = a.x.as<float>(), .n = a.x.numel(), .out = a.out.as<double>()};
  stream.enqueue([k] { run(k); });
}

template <void (*run)(const ColumnSumCpu&)>
void columns_entry(const ColumnSum& a, Stream& stream) {
  ensure(a.x.rank() == 2 && row_contiguous(a.x) && a.out.numel() == a.x.dim(1) && contiguous(a.out),
         "column_sum: x must be [R, C] with a last stride of 1, out f32 [C]");
  const ColumnSumCpu k{.x = a.x.data,
                       .rows = a.x.dim(0),
                       .cols = a.x.dim(1),
                       .stride = a.x.stride(0),
                       .out = a.out.as<float>(),
                       .bf16 = is_bf16(a.x, "column_sum")};
  stream.enqueue([k] { run(k); });
}

}  // namespace

void add_reduce(KernelTable& table, Level level) {
  table.set<SumOfSquares>(TRAINCTL_PICK(level, squares_entry, sum_of_squares));
  table.set<ColumnSum>(TRAINCTL_PICK(level, columns_entry, column_sum));
}

}  // namespace trainctl::kernels
