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
std::string with_receipt_digest(nlohmann::json but_tensors, std::string_view tensors);  // the head
inline constexpr std::string_view kReceiptEnd = "}\n";
void check_schema(const JsonFields& fields, std::string_view expected);

// The record is of a version that this program does not read: nothing is known of what it says.
struct OtherVersion : Error {
  using Error::Error;
};
// The text is canonical and has its own digest. `expected`: what this program would write for what it read, which
// settles most texts; those of another minor version have other members and are judged by themselves.
void check_canonical(const std::string& expected, std::string_view text, const std::string& source);
// The same of a receipt's text up to its list of tensors.
void check_receipt_head(const std::string& expected, std::string_view head, std::string_view tensors,
                        const std::string& source);

}  // namespace trainctl
