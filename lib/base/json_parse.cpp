// lib/base/json_parse.cpp -- containers, words and the space between tokens; scalars are in json_scalar.cpp.
#include "base/json_parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/config_visitor.h"

namespace trainctl {
namespace {

// The member of an object that has a key. Objects with many members, which may be hostile, get an index.
class Seen {
 public:
  const JsonNode::Member* find(const JsonNode::Object& members, const std::string& key) {
    if (members.size() < kFew) {
      const auto same = [&key](const JsonNode::Member& m) { return m.key == key; };
      const auto found = std::find_if(members.begin(), members.end(), same);
      return found == members.end() ? nullptr : &*found;
    }
    for (; indexed_ < members.size(); ++indexed_) index_.emplace(members[indexed_].key, indexed_);
    const auto found = index_.find(key);
    return found == index_.end() ? nullptr : &members[found->second];
  }

 private:
  static constexpr size_t kFew = 24;
  std::unordered_map<std::string, size_t> index_;
  size_t indexed_ = 0;
};

}  // namespace

void JsonParser::report(TextPosition position, std::string message) {
  std::string path;
  for (const Part& part : path_)
    path = join_path(path, part.index >= 0 ? fmt::format("[{}]", part.index) : std::string(part.key));
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
    if (c > ' ' && c != '#' && c != '/') return;
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
    value(0, result.root);
    skip_space();
    if (!at_end()) stop(position_, fmt::format("{} after the end of the JSON value; remove it", here()));
    result.complete = true;
  } catch (const Stop&) {
    result.root = JsonNode{};
  }
  result.faults = std::move(faults_);
  return result;
}

void JsonParser::value(int depth, JsonNode& node) {
  const TextPosition start = position_;
  const char c = peek();
  if (c == '{' || c == '[') {
    if (depth >= kMaxJsonDepth) stop(start, fmt::format("nested deeper than {} levels", kMaxJsonDepth));
    c == '{' ? object(depth + 1, node) : array(depth + 1, node);
  } else if (c == '"') {
    node.value = string();
  } else if (c >= '0' && c <= '9') {
    node = number();
  } else if (take_non_finite(node)) {
    // reported there
  } else if (c == '-' || c == '+' || c == '.') {
    node = number();
  } else {
    node = word();
  }
  node.position = start;
}

void JsonParser::object(int depth, JsonNode& node) {
  const TextPosition opened = position_;
  auto& members = node.value.emplace<JsonNode::Object>();
  Seen seen;
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
    path_.push_back({key});
    const JsonNode::Member* first = seen.find(members, key);
    if (first != nullptr)
      report(key_position, fmt::format("duplicate key {}; it is already set at line {}, column {}: remove one of them",
                                       in_quotes(key), first->position.line, first->position.column));
    const bool is_new = first == nullptr;
    skip_space();
    if (peek() != ':')
      stop(position_, fmt::format("\":\" is needed after the key {}, found {}", in_quotes(key), here()));
    advance();
    skip_space();
    JsonNode ignored;
    value(depth, is_new ? members.emplace_back(JsonNode::Member{{}, key_position, {}}).value : ignored);
    path_.pop_back();
    if (is_new) members.back().key = std::move(key);
    more = after_element('}', "object", opened);
  }
}

void JsonParser::array(int depth, JsonNode& node) {
  const TextPosition opened = position_;
  auto& items = node.value.emplace<JsonNode::Array>();
  advance();
  skip_space();
  bool more = peek() != ']' || at_end();
  if (!more) advance();
  while (more) {
    if (at_end()) stop(opened, "this \"[\" is never closed; a \"]\" is missing");
    path_.push_back({{}, std::ssize(items)});
    value(depth, items.emplace_back());
    path_.pop_back();
    more = after_element(']', "array", opened);
  }
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
