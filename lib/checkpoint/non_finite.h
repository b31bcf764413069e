// lib/checkpoint/non_finite.h -- counting infinities and NaNs in stored tensors.
#pragma once

#include <cstdint>
#include <string_view>

namespace trainctl {

// Elements of `data` (a safetensors dtype, any alignment) whose exponent bits are all set; 0 for integer dtypes.
int64_t count_non_finite(const char* data, int64_t bytes, std::string_view dtype);

}  // namespace trainctl
