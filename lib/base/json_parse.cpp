// lib/base/json_parse.cpp -- containers, words and the space between tokens; scalars are in json_scalar.cpp.
#include "base/json_parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/config_visitor.h"

namespace trainctl {

void JsonParser::report(TextPosition position, std::string message) {
  std::string path;
  for (const std::string& part : path_) path = join_path(path, part);
  faults_.push_back({std::move(path), position, std::move(message)});
  if (faults_.size() < kMaxJsonFaults) return;
  faults_.push_back({"", position, "too many faults; what follows was not read"});
  throw Stop{};
}

void JsonParser::stop(TextPosition position, std::string message) {
  report(position, std::move(message));
  throw Stop{};
}

// Columns count characters: continuation bytes of UTF-8 add nothing.
void JsonParser::advance(size_t count) {
  for (; count > 0 && !at_end(); --count, ++at_) {
    if (text_[at_] == '\n')
      position_ = {position_.line + 1, 1};
    else if ((static_cast<unsigned char>(text_[at_]) & 0xC0) != 0x80)
      ++position_.column;
  }
}

std::string JsonParser::here() const {
  if (at_end()) return "the end of the file";
  const std::string_view rest = text_.substr(at_);
  // A word, or one mark of punctuation.
  const size_t end = std::clamp<size_t>(rest.find_first_of(" \t\r\n,:{}[]\""), 1, rest.size());
  std::string shown;
  for (size_t i = 0; i < end && shown.size() < 24;) {
    const size_t length = utf8_length(rest.substr(i));
    shown += length > 0 ? std::string(rest.substr(i, length))
                        : fmt::format("\\x{:02X}", static_cast<unsigned>(rest[i]) & 0xFFu);
    i += std::max<size_t>(length, 1);
  }
  return in_quotes(shown);
}

void JsonParser::skip_space() {
  for (;;) {
    const char c = peek();
    if (!at_end() && (c == ' ' || c == '\t' || c == '\n' || c == '\r')) {
      advance();
    } else if (!at_end() && (c == '#' || text_.substr(at_, 2) == "//")) {
      report(position_, "comments are not JSON; remove it");
      while (!at_end() && peek() != '\n') advance();
    } else if (text_.substr(at_, 2) == "/*") {
      const TextPosition start = position_;
      report(start, "comments are not JSON; remove it");
      const size_t close = text_.find("*/", at_ + 2);
      if (close == std::string_view::npos) stop(start, "this comment has no end \"*/\"");
      advance(close + 2 - at_);
    } else {
      return;
    }
  }
}

ParsedJson JsonParser::parse() {
  ParsedJson result;
  try {
    if (text_.substr(0, 3) == "\xEF\xBB\xBF") {
      report(position_, "the file starts with a byte order mark (EF BB BF); save it as UTF-8 without BOM");
      at_ = 3;
    } else if (text_.substr(0, 2) == "\xFF\xFE" || text_.substr(0, 2) == "\xFE\xFF") {
      stop(position_, "the file is UTF-16; save it as UTF-8 without BOM");
    }
    skip_space();
    if (at_end()) stop(position_, "the file is empty; a JSON object { ... } is needed");
    result.root = value(0);
    skip_space();
    if (!at_end()) stop(position_, fmt::format("{} after the end of the JSON value; remove it", here()));
    result.complete = true;
  } catch (const Stop&) {
    result.root = JsonNode{};
  }
  result.faults = std::move(faults_);
  return result;
}

JsonNode JsonParser::value(int depth) {
  const TextPosition start = position_;
  JsonNode node;
  const char c = peek();
  if (c == '{' || c == '[') {
    if (depth >= kMaxJsonDepth) stop(start, fmt::format("nested deeper than {} levels", kMaxJsonDepth));
    node = c == '{' ? object(depth + 1) : array(depth + 1);
  } else if (c == '"') {
    node.value = string();
  } else if (take_non_finite(node)) {
    // reported there
  } else if (c == '-' || c == '+' || c == '.' || (c >= '0' && c <= '9')) {
    node = number();
  } else {
    node = word();
  }
  node.position = start;
  return node;
}

JsonNode JsonParser::object(int depth) {
  const TextPosition opened = position_;
  JsonNode::Object members;
  std::map<std::string, TextPosition> seen;
  advance();
  skip_space();
  bool more = peek() != '}' || at_end();
  if (!more) advance();
  while (more) {
    const TextPosition key_position = position_;
    if (at_end()) stop(opened, "this \"{\" is never closed; a \"}\" is missing");
    if (peek() == '\'') stop(key_position, "keys and strings take double quotes, not single ones");
    if (peek() != '"') stop(key_position, fmt::format("a key in double quotes is needed here, found {}", here()));
    std::string key = string();
    path_.push_back(key);
    const auto [first, is_new] = seen.emplace(key, key_position);
    if (!is_new)
      report(key_position, fmt::format("duplicate key {}; it is already set at line {}, column {}: remove one of them",
                                       in_quotes(key), first->second.line, first->second.column));
    skip_space();
    if (peek() != ':')
      stop(position_, fmt::format("\":\" is needed after the key {}, found {}", in_quotes(key), here()));
    advance();
    skip_space();
    JsonNode member = value(depth);
    path_.pop_back();
    if (is_new) members.push_back({std::move(key), key_position, std::move(member)});
    more = after_element('}', "object", opened);
  }
  JsonNode node;
  node.value = std::move(members);
  return node;
}

JsonNode JsonParser::array(int depth) {
  const TextPosition opened = position_;
  JsonNode::Array items;
  advance();
  skip_space();
  bool more = peek() != ']' || at_end();
  if (!more) advance();
  while (more) {
    if (at_end()) stop(opened, "this \"[\" is never closed; a \"]\" is missing");
    path_.push_back(fmt::format("[{}]", items.size()));
    JsonNode item = value(depth);
    path_.pop_back();
    items.push_back(std::move(item));
    more = after_element(']', "array", opened);
  }
  JsonNode node;
  node.value = std::move(items);
  return node;
}

bool JsonParser::after_element(char close, std::string_view container, TextPosition opened) {
  skip_space();
  if (at_end())
    stop(opened, fmt::format("this \"{}\" is never closed; a \"{}\" is missing", close == '}' ? '{' : '[', close));
  if (peek() == close) {
    advance();
    return false;
  }
  const TextPosition comma = position_;
  if (peek() != ',') stop(comma, fmt::format("\",\" or \"{}\" is needed here, found {}", close, here()));
  advance();
  skip_space();
  if (peek() == ',') stop(position_, "two commas in a row; remove one");
  if (peek() == close && !at_end()) {
    report(comma, fmt::format("trailing comma after the last element of this {}; remove it", container));
    advance();
    return false;
  }
  return true;
}

JsonNode JsonParser::word() {
  JsonNode node;
  for (const auto& [text, meaning] : {std::pair<std::string_view, int>{"true", 1}, {"false", 0}, {"null", -1}}) {
    if (text_.substr(at_, text.size()) != text) continue;
    const char next = at_ + text.size() < text_.size() ? text_[at_ + text.size()] : ' ';
    if ((next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z') || next == '_') continue;
    advance(text.size());
    if (meaning >= 0) node.value = meaning == 1;
    return node;
  }
  if (!at_end() && (utf8_length(text_.substr(at_)) == 0 || peek() == '\0'))
    stop(position_, fmt::format("byte 0x{:02X} where a JSON value is needed: this is no JSON text in UTF-8",
                                static_cast<unsigned>(static_cast<unsigned char>(peek()))));
  const std::string found = here();
  if (peek() == '\'') stop(position_, "strings take double quotes, not single ones");
  if (found == "\"True\"" || found == "\"False\"" || found == "\"None\"")
    stop(position_, fmt::format("{} is not JSON; write {} in lower case", found,
                                found == "\"None\""   ? "null"
                                : found == "\"True\"" ? "true"
                                                      : "false"));
  stop(position_, at_end() ? std::string("the file ends where a value is needed")
                           : fmt::format("{} is no JSON value; strings need double quotes", found));
}

ParsedJson parse_json_lenient(std::string_view text) { return JsonParser(text).parse(); }

}  // namespace trainctl
