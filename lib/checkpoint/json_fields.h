// lib/checkpoint/json_fields.h -- members of a JSON object that must be there and be right; faults are
// Error{checkpoint}.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_node.h"

namespace trainctl {

// Strict JSON (duplicate keys, comments, trailing text are refused). Throws Error{checkpoint} "<source>:<l>:<c>: what".
JsonNode parse_checkpoint_json(std::string_view text, const std::string& source);

// A view of one object; `node`, `source`, label, and the view and the key it was taken by must outlive it. Every
// getter throws Error{checkpoint} naming source, path and rule; without a fault none of them makes a text.
class JsonFields {
 public:
  // `label` stands before the keys in messages; "": nothing does.
  JsonFields(const JsonNode& node, const std::string& source, std::string_view label = {})
      : JsonFields(node, source, nullptr, label, -1) {}

  bool has(std::string_view key) const { return node_.find(key) != nullptr; }
  int64_t integer(std::string_view key, int64_t minimum = 0, int64_t maximum = INT64_MAX) const;
  const std::string& text(std::string_view key) const;
  std::string hex(std::string_view key, size_t digits) const;  // lower-case hex of exactly this length
  const JsonNode::Array& list(std::string_view key) const;
  std::vector<int64_t> integers(std::string_view key, int64_t minimum = 0) const;
  std::vector<std::string> hexes(std::string_view key, size_t digits) const;
  JsonFields object(std::string_view key) const;
  JsonFields element(std::string_view key, const JsonNode& item, size_t index) const;  // of list(key)
  const JsonNode& node(std::string_view key) const;
  const std::string& source() const { return source_; }
  [[noreturn]] void refuse(std::string_view key, std::string_view what) const;

 private:
  JsonFields(const JsonNode& node, const std::string& source, const JsonFields* parent, std::string_view key,
             int64_t index);
  std::string path() const;  // "" for the whole, "files[3]", ...

  const JsonNode& node_;
  const std::string& source_;
  const JsonFields* parent_;  // null: key_ is the label
  std::string_view key_;      // of the parent
  int64_t index_;             // in the parent's list; -1: the member itself
};

bool is_hex(std::string_view text, size_t digits);

}  // namespace trainctl
