// lib/base/json_node.h -- strict JSON with the line and column of every key and value.
//
// Refused, with position: comments, trailing commas, duplicate keys, a byte order mark, NaN and infinities, numbers out
// of range (1e400), text after the value, nesting deeper than kMaxJsonDepth, invalid UTF-8.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace trainctl {

inline constexpr int kMaxJsonDepth = 64;
inline constexpr size_t kMaxJsonFaults = 200;  // then the parser gives up

struct TextPosition {
  int line = 0;    // from 1; 0: not known (a default, or a --set override)
  int column = 0;  // from 1, in characters
};

struct JsonNode {
  using Array = std::vector<JsonNode>;
  struct Member;
  using Object = std::vector<Member>;                                                               // in file order
  std::variant<std::nullptr_t, bool, int64_t, uint64_t, double, std::string, Array, Object> value;  // at first null
  TextPosition position;
  std::string origin;   // "" for the file; "--set key=value" for an override
  bool broken = false;  // stands for text that was already reported as a fault; readers pass over it

  const JsonNode* find(std::string_view key) const;  // null when this is no object or the key is absent
  std::string_view type_name() const;  // "null", "boolean", "integer", "number", "string", "array", "object"
  std::string text() const;            // compact JSON, for error messages
  template <class T>
  const T* as() const {
    return std::get_if<T>(&value);
  }
};
struct JsonNode::Member {
  std::string key;
  TextPosition position;  // of the key
  JsonNode value;
};

// One thing wrong with an input file. `path` is dotted ("model.heads", "data.train[0].weight").
struct Fault {
  std::string path;
  TextPosition position;
  std::string message;  // names the value, the rule and the nearest legal value
};

// Parses `text`. Faults after which the meaning is still clear (comments, trailing commas, duplicate keys, numbers out
// of range, NaN, invalid UTF-8, a byte order mark) do not stop it, so that they are all reported together; anything
// else does, and so do kMaxJsonFaults faults; then `complete` is false and the last fault says why.
struct ParsedJson {
  JsonNode root;
  std::vector<Fault> faults;
  bool complete = false;
};
ParsedJson parse_json_lenient(std::string_view text);

// Parses `text`. Throws Error{config} with one line "<source>:<line>:<column>: <what>" per syntax fault.
JsonNode parse_json(std::string_view text, std::string_view source);
// Throws Error{input} when the file cannot be read; then as parse_json.
JsonNode parse_json_file(const std::filesystem::path& path);

// Applies "section.key=value" to `root`: the value is JSON when it parses as JSON, else a string. Missing sections are
// created; array elements are addressed as key[0]. Throws Error{usage} when the expression itself is malformed.
void apply_override(JsonNode& root, std::string_view expression);

// "source:line:col: path: message" lines, one per fault, sorted by position; no position: "source: path: message".
std::string format_faults(std::string_view source, const std::vector<Fault>& faults);
// Throws Error{config} with format_faults when there are any.
void refuse_faults(std::string_view source, const std::vector<Fault>& faults);

// The candidate closest to `word` by edit distance (case, '-' and '_' count as nearly equal), "" when none is close.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

// `word` in double quotes, escaped as in JSON; for messages.
std::string in_quotes(std::string_view word);
// `text` up to about `bytes` bytes, cut between characters and then marked with "...".
std::string clipped(std::string_view text, size_t bytes = 60);

}  // namespace trainctl
