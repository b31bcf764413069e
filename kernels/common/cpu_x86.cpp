// kernels/common/cpu_x86.cpp -- what this x86-64 processor offers.
#include "kernels/common/cpu.h"

namespace trainctl::kernels {

bool cpu_has(Level level) {
  switch (level) {
    case Level::portable:
      return true;
    case Level::avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case Level::avx512:
      return cpu_has(Level::avx2) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  }
  return false;
}

bool cpu_has_bf16() { return __builtin_cpu_supports("avx512bf16"); }

}  // namespace trainctl::kernels
