// lib/base/text_line.cpp -- see the header.
#include "base/text_line.h"

#include "base/json_parse.h"

namespace trainctl {

bool is_text_line(std::string_view text) {
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    const auto first = static_cast<unsigned char>(text.front());
    if (length == 0 || first < 0x20 || first == 0x7F) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace trainctl
