// kernels/cpu_table.cpp -- the CPU's kernel tables by vector level.
#include <array>
#include <string>

#include "base/error.h"
#include "kernels/common/cpu.h"
#include "kernels/cpu_entries.h"

namespace trainctl::kernels {
namespace {

struct NamedLevel {
  std::string_view name;
  Level level;
};
constexpr std::array<NamedLevel, 3> kLevels = {
    {{"avx512", Level::avx512}, {"avx2", Level::avx2}, {"portable", Level::portable}}};  // best first

KernelTable table_at(Level level) {
  KernelTable table;
  add_adamw(table, level);
  add_attention(table, level);
  add_cast(table, level);
  add_cross_entropy(table, level);
  add_embedding(table, level);
  add_gelu(table, level);
  add_gemm(table, level);
  add_init(table);
  add_layernorm(table, level);
  add_reduce(table, level);
  add_residual(table, level);
  add_rmsnorm(table, level);
  add_rope(table, level);
  add_sgd(table, level);
  add_swiglu(table, level);
  return table;
}

const NamedLevel& best_level() {
  for (const NamedLevel& l : kLevels)
    if (cpu_has(l.level)) return l;
  return kLevels.back();
}

}  // namespace

KernelTable cpu_kernels() { return table_at(best_level().level); }
std::string_view cpu_vector_level() { return best_level().name; }

KernelTable cpu_kernels_at(std::string_view level) {
  for (const NamedLevel& l : kLevels) {
    if (l.name != level) continue;
    if (!cpu_has(l.level))
      fail(ErrorKind::environment, "this processor or build has no " + std::string(level) + " kernels; it has up to " +
                                       std::string(cpu_vector_level()));
    return table_at(l.level);
  }
  fail(ErrorKind::environment, "unknown vector level \"" + std::string(level) + "\"; known: avx512, avx2, portable");
}

}  // namespace trainctl::kernels
