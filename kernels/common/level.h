// kernels/common/level.h -- vector levels: every *_cpu.cpp is compiled once per level, into the namespace of that name.
#pragma once

#include <cstdint>

namespace trainctl::kernels {

enum class Level : uint8_t { portable, avx2, avx512 };

// TRAINCTL_AT_EACH_LEVEL(void f(const FArgs&);) declares f in every level's namespace; TRAINCTL_PICK(level, entry, f)
// is the instance entry<level::f> that `level` names. Other processors than x86-64 have the portable level alone.
#ifdef TRAINCTL_X86_LEVELS
#define TRAINCTL_AT_EACH_LEVEL(...) \
  namespace portable {              \
  __VA_ARGS__                       \
  }                                 \
  namespace avx2 {                  \
  __VA_ARGS__                       \
  }                                 \
  namespace avx512 {                \
  __VA_ARGS__                       \
  }
#define TRAINCTL_PICK(level, entry, function)          \
  ((level) == Level::avx512 ? &entry<avx512::function> \
   : (level) == Level::avx2 ? &entry<avx2::function>   \
                            : &entry<portable::function>)
#else
#define TRAINCTL_AT_EACH_LEVEL(...) \
  namespace portable {              \
  __VA_ARGS__                       \
  }
#define TRAINCTL_PICK(level, entry, function) only_entry(level, &entry<portable::function>)
template <class Function>
Function only_entry(Level, Function f) {
  return f;
}
#endif

}  // namespace trainctl::kernels
