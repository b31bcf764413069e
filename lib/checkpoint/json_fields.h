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

// A view of one object; `node` must outlive it. Every getter throws Error{checkpoint} naming source, path and rule.
class JsonFields {
 public:
  JsonFields(const JsonNode& node, std::string source, std::string path = "");

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
  const JsonNode& node_;
  std::string source_, path_;
};

bool is_hex(std::string_view text, size_t digits);

}  // namespace trainctl
