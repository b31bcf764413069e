// kernels/common/cpu_other.cpp -- processors other than x86-64: the portable level alone.
#include "kernels/common/cpu.h"

namespace trainctl::kernels {

bool cpu_has(Level level) { return level == Level::portable; }
bool cpu_has_bf16() { return false; }

}  // namespace trainctl::kernels
