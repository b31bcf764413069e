// lib/base/json_scalar.cpp -- numbers and strings of the strict JSON parser.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <utility>

#include "base/json_parse.h"

namespace trainctl {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

void append_utf8(std::string& out, uint32_t code) {
  const auto put = [&out](uint32_t byte) { out.push_back(static_cast<char>(static_cast<unsigned char>(byte))); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | (code >> 6));
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | (code >> 12));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | (code >> 18));
    put(0x80 | ((code >> 12) & 0x3F));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

constexpr uint32_t kReplacement = 0xFFFD;

}  // namespace

size_t utf8_length(std::string_view s) {
  const auto byte = [&s](size_t i) { return i < s.size() ? static_cast<unsigned char>(s[i]) : 0u; };
  const auto continues = [&byte](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return continues(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const unsigned low = lead == 0xE0 ? 0xA0 : 0x80, high = lead == 0xED ? 0x9F : 0xBF;
    return byte(1) >= low && byte(1) <= high && continues(2) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const unsigned low = lead == 0xF0 ? 0x90 : 0x80, high = lead == 0xF4 ? 0x8F : 0xBF;
    return byte(1) >= low && byte(1) <= high && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

bool JsonParser::take_non_finite(JsonNode& node) {
  for (const std::string_view text :
       {"NaN", "nan", "-NaN", "-nan", "Infinity", "-Infinity", "+Infinity", "inf", "-inf", "Inf", "-Inf", "+inf"}) {
    const size_t end = at_ + text.size();
    if (text_.substr(at_, text.size()) != text) continue;
    const char next = end < text_.size() ? text_[end] : ' ';
    if ((next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z') || is_digit(next) || next == '_') continue;
    report(position_, fmt::format("{} is not JSON; a finite number is needed", text));
    advance(text.size());
    node.broken = true;
    return true;
  }
  return false;
}

JsonNode JsonParser::number() {
  const TextPosition start = position_;
  const size_t begin = at_;
  bool is_integer = true;
  if (peek() == '+') stop(start, fmt::format("{}: a number has no leading \"+\"", here()));
  if (peek() == '.') stop(start, fmt::format("{}: a number starts with a digit, write 0{}", here(), here()));
  if (peek() == '-') advance();
  if (!is_digit(peek())) stop(start, "\"-\" without a digit after it is no number");
  const bool leading_zero = peek() == '0';
  const size_t first_digit = at_;
  while (is_digit(peek())) advance();
  if (leading_zero && at_ - first_digit > 1)
    stop(start, fmt::format("{} has a leading zero, which JSON does not allow", text_.substr(begin, at_ - begin)));
  if (leading_zero && (peek() == 'x' || peek() == 'X')) stop(start, "hexadecimal numbers are not JSON");
  if (peek() == '.') {
    is_integer = false;
    advance();
    if (!is_digit(peek()))
      stop(start, fmt::format("{} ends in a point; write {}0", text_.substr(begin, at_ - begin),
                              text_.substr(begin, at_ - begin)));
    while (is_digit(peek())) advance();
  }
  if (peek() == 'e' || peek() == 'E') {
    is_integer = false;
    advance();
    if (peek() == '+' || peek() == '-') advance();
    if (!is_digit(peek()))
      stop(start, fmt::format("{} has an exponent without digits", text_.substr(begin, at_ - begin)));
    while (is_digit(peek())) advance();
  }
  const std::string_view token = text_.substr(begin, at_ - begin);
  const char* const first = token.data();
  const char* const last = token.data() + token.size();
  if (peek() == '_' || (peek() >= 'a' && peek() <= 'z') || (peek() >= 'A' && peek() <= 'Z'))
    stop(start,
         fmt::format("{}{} is no number: digits only, without separators or units", token, text_.substr(at_, 1)));
  JsonNode node;
  if (is_integer) {
    int64_t small = 0;
    if (std::from_chars(first, last, small).ec == std::errc()) {
      node.value = small;
      return node;
    }
    uint64_t large = 0;
    if (std::from_chars(first, last, large).ec == std::errc()) {
      node.value = large;
      return node;
    }
  }
  double real = 0;
  const auto converted = std::from_chars(first, last, real);
  // from_chars reports underflow as out of range too: 1e-400 is zero for all purposes but is refused all the same.
  if (converted.ec != std::errc() || !std::isfinite(real)) {
    report(start, fmt::format("{} is out of range: numbers are 64-bit floating point, at most about 1.8e308 and, other "
                              "than zero, at least about 4.9e-324 in size",
                              token.size() > 40 ? std::string(token.substr(0, 40)) + "..." : std::string(token)));
    node.broken = true;
    return node;
  }
  node.value = real;
  return node;
}

void JsonParser::utf8_character(std::string& out) {
  const size_t length = utf8_length(text_.substr(at_));
  if (length == 0) {
    report(position_, fmt::format("invalid UTF-8: byte 0x{:02X}; save the file as UTF-8",
                                  static_cast<unsigned>(static_cast<unsigned char>(peek()))));
    append_utf8(out, kReplacement);
    advance();
    return;
  }
  out.append(text_.substr(at_, length));
  advance(length);
}

// The run of characters from here on that stand for themselves in one byte each.
void JsonParser::plain_characters(std::string& out) {
  const auto plain = [](char c) { return c >= ' ' && c < '\x7f' && c != '"' && c != '\\'; };
  size_t end = at_;
  while (end < text_.size() && plain(text_[end])) ++end;
  out.append(text_, at_, end - at_);
  position_.column += static_cast<int>(end - at_);
  at_ = end;
}

std::string JsonParser::string() {
  const TextPosition opened = position_;
  std::string out;
  advance();
  for (plain_characters(out); peek() != '"' || at_end(); plain_characters(out)) {
    if (at_end() || peek() == '\n') stop(opened, "this string is never closed; a \" is missing on this line");
    const auto c = static_cast<unsigned char>(peek());
    if (c == '\\') {
      escape(out);
    } else if (c < 0x20) {
      report(position_,
             fmt::format("control character 0x{:02X} in a string; write it as \\u{:04x}", unsigned{c}, unsigned{c}));
      out.push_back(peek());
      advance();
    } else {
      utf8_character(out);
    }
  }
  advance();
  return out;
}

uint32_t JsonParser::hex4() {
  const std::string_view digits = text_.substr(at_, 4);
  uint32_t code = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
  if (digits.size() != 4 || read.ec != std::errc() || read.ptr != digits.data() + 4)
    stop(position_, "\\u needs four hexadecimal digits after it");
  advance(4);
  return code;
}

void JsonParser::escape(std::string& out) {
  const TextPosition start = position_;
  advance();
  const char c = peek();
  constexpr std::string_view names = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
  if (const size_t i = names.find(c); i != std::string_view::npos && !at_end()) {
    advance();
    out.push_back(meanings[i]);
    return;
  }
  if (c != 'u') stop(start, fmt::format("unknown escape: \\ before {}; a backslash itself is written \\\\", here()));
  advance();
  uint32_t code = hex4();
  if (code >= 0xD800 && code <= 0xDBFF && text_.substr(at_, 2) == "\\u") {
    advance(2);
    const uint32_t low = hex4();
    if (low >= 0xDC00 && low <= 0xDFFF) {
      append_utf8(out, 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00));
      return;
    }
    code = 0xD800;  // reported below
  }
  if (code >= 0xD800 && code <= 0xDFFF) {
    report(start, "half of a surrogate pair in a string; write the character itself in UTF-8");
    code = kReplacement;
  }
  append_utf8(out, code);
}

}  // namespace trainctl
