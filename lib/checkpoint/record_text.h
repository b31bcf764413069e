// lib/checkpoint/record_text.h -- what the records of format.h and markers.h share in their text (not for users of the
// module).
#pragma once

#include <fmt/format.h>

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "checkpoint/format.h"
#include "checkpoint/json_fields.h"

namespace trainctl {

nlohmann::json record_schema(std::string_view name);
std::string with_self_digest(nlohmann::json value);  // canonical text with self_xxh128 and one newline
// A receipt's text is this head, the text of its list of tensors, and the end; the head's digest covers the list.
std::string receipt_head(const Receipt& receipt, std::string_view tensors);
inline constexpr std::string_view kReceiptEnd = "}\n";
void check_schema(const JsonFields& fields, std::string_view expected);

// The record's text must be exactly what this program would write for it.
inline void check_canonical(const std::string& expected, std::string_view text, const std::string& source) {
  if (expected != text)
    fail(ErrorKind::checkpoint,
         fmt::format("{} is damaged: its text does not agree with its own digest (self_xxh128)", source));
}

}  // namespace trainctl
