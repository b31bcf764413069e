// lib/checkpoint/json_fields.cpp -- strict reading of checkpoint JSON.
#include "checkpoint/json_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace trainctl {

bool is_hex(std::string_view text, size_t digits) {
  return text.size() == digits &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

JsonNode parse_checkpoint_json(std::string_view text, const std::string& source) {
  ParsedJson parsed = parse_json_lenient(text);
  if (!parsed.faults.empty() || !parsed.complete) {
    const Fault fault = parsed.faults.empty() ? Fault{"", {}, "is no JSON"} : parsed.faults.front();
    fail(ErrorKind::checkpoint,
         fmt::format("{}:{}:{}: {}", source, fault.position.line, fault.position.column, fault.message));
  }
  return std::move(parsed.root);
}

JsonFields::JsonFields(const JsonNode& node, const std::string& source, const JsonFields* parent, std::string_view key,
                       int64_t index)
    : node_(node), source_(source), parent_(parent), key_(key), index_(index) {
  if (!node.as<JsonNode::Object>())
    fail(ErrorKind::checkpoint, fmt::format("{}: {} is of type {}, an object is needed", source_,
                                            path().empty() ? "the whole" : path(), node.type_name()));
}

std::string JsonFields::path() const {
  if (parent_ == nullptr) return std::string(key_);
  const std::string above = parent_->path();
  return fmt::format("{}{}{}{}", above, above.empty() ? "" : ".", key_, index_ < 0 ? "" : fmt::format("[{}]", index_));
}

void JsonFields::refuse(std::string_view key, std::string_view what) const {
  const std::string above = path();
  fail(ErrorKind::checkpoint, fmt::format("{}: {}{}{} {}", source_, above, above.empty() ? "" : ".", key, what));
}

const JsonNode& JsonFields::node(std::string_view key) const {
  const JsonNode* found = node_.find(key);
  if (!found) refuse(key, "is missing");
  return *found;
}

int64_t JsonFields::integer(std::string_view key, int64_t minimum, int64_t maximum) const {
  const int64_t* value = node(key).as<int64_t>();
  if (!value) refuse(key, fmt::format("is {}, a 64-bit integer is needed", node(key).type_name()));
  if (*value < minimum || *value > maximum)
    refuse(key, fmt::format("= {} is outside [{}, {}]", *value, minimum, maximum));
  return *value;
}

const std::string& JsonFields::text(std::string_view key) const {
  const std::string* value = node(key).as<std::string>();
  if (!value) refuse(key, fmt::format("is {}, a string is needed", node(key).type_name()));
  return *value;
}

std::string JsonFields::hex(std::string_view key, size_t digits) const {
  if (!is_hex(text(key), digits)) refuse(key, fmt::format("is no digest of {} lower-case hex digits", digits));
  return text(key);
}

const JsonNode::Array& JsonFields::list(std::string_view key) const {
  const JsonNode::Array* value = node(key).as<JsonNode::Array>();
  if (!value) refuse(key, fmt::format("is {}, a list is needed", node(key).type_name()));
  return *value;
}

std::vector<int64_t> JsonFields::integers(std::string_view key, int64_t minimum) const {
  std::vector<int64_t> values;
  for (const JsonNode& item : list(key)) {
    const int64_t* value = item.as<int64_t>();
    if (!value || *value < minimum)
      refuse(key, fmt::format("[{}] is {}, an integer >= {} is needed", values.size(), item.text(), minimum));
    values.push_back(*value);
  }
  return values;
}

std::vector<std::string> JsonFields::hexes(std::string_view key, size_t digits) const {
  std::vector<std::string> values;
  for (const JsonNode& item : list(key)) {
    const std::string* value = item.as<std::string>();
    if (!value || !is_hex(*value, digits))
      refuse(key, fmt::format("[{}] is no digest of {} lower-case hex digits", values.size(), digits));
    values.push_back(*value);
  }
  return values;
}

JsonFields JsonFields::object(std::string_view key) const { return {node(key), source_, this, key, -1}; }

JsonFields JsonFields::element(std::string_view key, const JsonNode& item, size_t index) const {
  return {item, source_, this, key, static_cast<int64_t>(index)};
}

}  // namespace trainctl
