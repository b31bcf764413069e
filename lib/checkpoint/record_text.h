// lib/checkpoint/record_text.h -- what the records of format.h and markers.h share in their text (not for users of the
// module).
#pragma once

#include <fmt/format.h>

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "checkpoint/json_fields.h"

namespace trainctl {

nlohmann::json record_schema(std::string_view name);
std::string with_self_digest(nlohmann::json value);  // canonical text with self_xxh128 and one newline
void check_schema(const JsonFields& fields, std::string_view expected);

// The record's text must be exactly what this program would write for it.
template <class T>
void check_canonical(const T& record, std::string_view text, const std::string& source) {
  if (to_text(record) != text)
    fail(ErrorKind::checkpoint,
         fmt::format("{} is damaged: its text does not agree with its own digest (self_xxh128)", source));
}

}  // namespace trainctl
