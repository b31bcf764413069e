// kernels/init/init.cpp -- initial values; f64 libm on every level, so that all levels start from the same bits.
#include <algorithm>
#include <cmath>

#include "base/philox.h"
#include "kernels/common/entry.h"
#include "kernels/cpu_entries.h"

namespace trainctl::kernels {
namespace {

void normal(const InitNormal& a) {
  const int64_t rows = a.x.dim(0), cols = a.x.dim(1);
  float* x = a.x.as<float>();
#pragma omp parallel for schedule(static) if (rows * cols > 4096)
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) {
      const int64_t index = (a.row_begin + r) * a.global_cols + a.col_begin + c;
      x[r * cols + c] = static_cast<float>(a.std * philox_normal(a.key, a.stream, static_cast<uint64_t>(index)));
    }
}

void init_normal_entry(const InitNormal& a, Stream& stream) {
  ensure(a.x.rank() == 2 && contiguous(a.x) && a.x.dtype == DType::f32, "init_normal: x must be contiguous f32 [R, C]");
  if (a.x.numel() > 0) stream.enqueue([a] { normal(a); });
}

void init_constant_entry(const InitConstant& a, Stream& stream) {
  ensure(contiguous(a.x) && a.x.dtype == DType::f32, "init_constant: x must be contiguous f32");
  if (a.x.numel() > 0) stream.enqueue([a] { std::fill_n(a.x.as<float>(), a.x.numel(), a.value); });
}

}  // namespace

void add_init(KernelTable& table) {
  table.set<InitNormal>(&init_normal_entry);
  table.set<InitConstant>(&init_constant_entry);
}

}  // namespace trainctl::kernels
