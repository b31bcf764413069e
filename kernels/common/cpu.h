// kernels/common/cpu.h -- which vector levels this build and this processor have.
#pragma once

#include "kernels/common/level.h"

namespace trainctl::kernels {

bool cpu_has(Level level);
bool cpu_has_bf16();  // instructions that multiply bf16 (AVX512_BF16)

}  // namespace trainctl::kernels
