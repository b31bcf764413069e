// kernels/rope/rope.cpp -- checks the contract and hands the CPU kernel plain pointers.
#include "kernels/common/entry.h"
#include "kernels/cpu_entries.h"
#include "kernels/rope/rope_cpu.h"

namespace trainctl::kernels {
namespace {

template <void (*run)(const RopeCpu&)>
void rope_entry(const Rope& a, Stream& stream) {
  const bool bf16 = is_bf16(a.x, "rope");
  ensure(a.x.rank() == 3 && row_contiguous(a.x) && a.x.dim(2) % 2 == 0,
         "rope: x must be [T, H, D] with an even D and a last stride of 1");
  const int64_t half = a.x.dim(2) / 2;
  ensure(a.positions.numel() == a.x.dim(0) && contiguous(a.positions), "rope: positions must be i32 [T]");
  ensure(a.cosine.rank() == 2 && a.cosine.dim(1) == half && a.sine.shape == a.cosine.shape && contiguous(a.cosine) &&
             contiguous(a.sine),
         "rope: cosine and sine must be contiguous f32 [P, D/2]");
  if (a.x.numel() == 0) return;
  const RopeCpu k{.x = a.x.data,
                  .positions = a.positions.as<int32_t>(),
                  .cosine = a.cosine.as<float>(),
                  .sine = a.sine.as<float>(),
                  .tokens = a.x.dim(0),
                  .heads = a.x.dim(1),
                  .half = half,
                  .token_stride = a.x.stride(0),
                  .head_stride = a.x.stride(1),
                  .table_stride = half,
                  .direction = a.inverse ? -1.0f : 1.0f,
                  .bf16 = bf16};
  const int64_t positions = a.cosine.dim(0);
  stream.enqueue([k, positions] {
    for (int64_t t = 0; t < k.tokens; ++t)
      ensure(k.positions[t] >= 0 && k.positions[t] < positions, "rope: a position lies outside the angle table");
    run(k);
  });
}

}  // namespace

void add_rope(KernelTable& table, Level level) { table.set<Rope>(TRAINCTL_PICK(level, rope_entry, rope)); }

}  // namespace trainctl::kernels
