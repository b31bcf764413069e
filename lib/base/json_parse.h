// lib/base/json_parse.h -- the strict JSON parser behind parse_json.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json_node.h"

namespace trainctl {

// Length of the well-formed UTF-8 character at the start of `s` (Unicode 15, table 3-7), 0 when malformed.
size_t utf8_length(std::string_view s);

// Recursive descent over RFC 8259, one pass, no backtracking. Written here because general parsers know neither where a
// value started nor how to go on after a comment.
class JsonParser {
 public:
  explicit JsonParser(std::string_view text) : text_(text) {}
  ParsedJson parse();

 private:
  struct Stop {};  // thrown after a fault that leaves no sensible way on

  void value(int depth, JsonNode& node);  // into a fresh node, as all three
  void object(int depth, JsonNode& node);
  void array(int depth, JsonNode& node);
  JsonNode number();
  JsonNode word();
  std::string string();
  void escape(std::string& out);
  uint32_t hex4();
  void plain_characters(std::string& out);
  void utf8_character(std::string& out);
  bool after_element(char close, std::string_view container, TextPosition opened);  // true: another one follows
  bool take_non_finite(JsonNode& node);

  bool at_end() const { return at_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  void advance(size_t count = 1);
  void skip_space();
  std::string here() const;  // what stands at the cursor, for messages
  void report(TextPosition position, std::string message);
  [[noreturn]] void stop(TextPosition position, std::string message);

  std::string_view text_;
  size_t at_ = 0;
  TextPosition position_ = {1, 1};
  std::vector<Fault> faults_;
  struct Part {
    std::string_view key;  // of the member that is being read, which its reader holds
    int64_t index = -1;    // of an array's element, instead of a key
  };
  std::vector<Part> path_;  // of the open containers, for messages
};

}  // namespace trainctl
