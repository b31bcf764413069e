// kernels/common/scratch.h -- per-thread working memory of kernels; grows to the largest request and is then reused.
#pragma once

#include <cstdint>

namespace trainctl::kernels {

enum class ScratchSlot : uint8_t { work, partial, panel_a, panel_b, panel_c };
inline constexpr int kScratchSlots = 5;

// 64-byte aligned, uninitialised, valid until this thread asks for the same slot again. Throws Error{memory}.
void* scratch(ScratchSlot slot, int64_t bytes);

}  // namespace trainctl::kernels
