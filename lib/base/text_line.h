// lib/base/text_line.h -- what JSON, a log line and a shell can all repeat.
#pragma once

#include <string_view>

namespace trainctl {

bool is_text_line(std::string_view text);  // well-formed UTF-8 without control characters

}  // namespace trainctl
