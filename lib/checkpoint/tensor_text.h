// lib/checkpoint/tensor_text.h -- the list of tensors that a receipt and a manifest hold, which is most of their text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/format.h"

namespace trainctl {

// The list as it stands in a record. Saves of one plan repeat it byte for byte: it need be made and read only once.
std::string tensors_text(const std::vector<TensorRecord>& tensors);

// The records of a text that is, byte for byte, what tensors_text gives for them, and that keeps every bound of
// receipt_from_text; empty for any other, which the general reader takes or refuses by name.
std::optional<std::vector<TensorRecord>> tensors_of_text(std::string_view text);

std::optional<DType> dtype_of_name(std::string_view text);  // "f32", "bf16", ...: the ones that a record may name

}  // namespace trainctl
