// lib/base/config_schema.cpp -- a config type as a JSON Schema.
#include <cmath>

#include "base/config_writer.h"

namespace trainctl {

using nlohmann::ordered_json;

namespace {

// Whole bounds of integers are written as integers.
ordered_json bound(double x) {
  return x == std::floor(x) && std::abs(x) < 9e15 ? ordered_json(static_cast<int64_t>(x)) : ordered_json(x);
}

ordered_json number_schema(const char* type, const Rule& rule) {
  ordered_json s = {{"type", type}};
  if (rule.minimum) s[rule.exclusive_minimum ? "exclusiveMinimum" : "minimum"] = bound(*rule.minimum);
  if (rule.maximum) s[rule.exclusive_maximum ? "exclusiveMaximum" : "maximum"] = bound(*rule.maximum);
  return s;
}

ordered_json string_schema(const Rule& rule) {
  ordered_json s = {{"type", "string"}};
  if (!rule.choices.empty()) s["enum"] = rule.choices;
  return s;
}

ordered_json or_null(ordered_json s) {
  s["type"] = ordered_json::array({s["type"], "null"});
  if (s.contains("enum")) s["enum"].push_back(nullptr);
  return s;
}

ordered_json array_schema(ordered_json items, const Rule& rule) {
  ordered_json s = {{"type", "array"}, {"items", std::move(items)}};
  if (rule.length) s["minItems"] = s["maxItems"] = *rule.length;
  return s;
}

}  // namespace

SchemaWriter::SchemaWriter(std::string_view title) : title_(title) { frames_.emplace_back(); }

ordered_json SchemaWriter::object_schema(Frame& frame) {
  ordered_json s = {{"type", "object"}};
  if (!frame.doc.empty()) s["description"] = frame.doc;
  s["additionalProperties"] = false;
  if (!frame.required_keys.empty()) s["required"] = std::move(frame.required_keys);
  s["properties"] = std::move(frame.properties);
  return s;
}

ordered_json SchemaWriter::take() {
  ordered_json s = {{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", title_}};
  s.update(object_schema(frames_.front()));
  return s;
}

void SchemaWriter::put(std::string_view key, std::string_view doc, const Rule& rule, ordered_json schema,
                       ordered_json default_value) {
  Frame& frame = frames_.back();
  if (!doc.empty()) schema["description"] = doc;
  if (rule.is_required)
    frame.required_keys.push_back(key);
  else if (!default_value.is_discarded())
    schema["default"] = std::move(default_value);
  frame.properties[std::string(key)] = std::move(schema);
}

void SchemaWriter::field(std::string_view key, bool& v, std::string_view doc, const Rule& rule) {
  put(key, doc, rule, {{"type", "boolean"}}, v);
}
void SchemaWriter::field(std::string_view key, int64_t& v, std::string_view doc, const Rule& rule) {
  put(key, doc, rule, number_schema("integer", rule), v);
}
void SchemaWriter::field(std::string_view key, double& v, std::string_view doc, const Rule& rule) {
  put(key, doc, rule, number_schema("number", rule), v);
}
void SchemaWriter::field(std::string_view key, std::string& v, std::string_view doc, const Rule& rule) {
  put(key, doc, rule, string_schema(rule), v);
}
void SchemaWriter::field(std::string_view key, IntOrWord& v, std::string_view doc, const Rule& rule) {
  ordered_json s = {{"anyOf", ordered_json::array({number_schema("integer", rule), {{"const", rule.word}}})}};
  put(key, doc, rule, std::move(s), v.value ? ordered_json(*v.value) : ordered_json(rule.word));
}
void SchemaWriter::field(std::string_view key, std::optional<int64_t>& v, std::string_view doc, const Rule& rule) {
  put(key, doc, rule, or_null(number_schema("integer", rule)), v ? ordered_json(*v) : ordered_json());
}
void SchemaWriter::field(std::string_view key, std::optional<double>& v, std::string_view doc, const Rule& rule) {
  put(key, doc, rule, or_null(number_schema("number", rule)), v ? ordered_json(*v) : ordered_json());
}
void SchemaWriter::field(std::string_view key, std::optional<std::string>& v, std::string_view doc, const Rule& rule) {
  put(key, doc, rule, or_null(string_schema(rule)), v ? ordered_json(*v) : ordered_json());
}
void SchemaWriter::field(std::string_view key, std::vector<int64_t>& v, std::string_view doc, const Rule& rule) {
  put(key, doc, rule, array_schema(number_schema("integer", rule), rule), v);
}
void SchemaWriter::field(std::string_view key, std::vector<double>& v, std::string_view doc, const Rule& rule) {
  put(key, doc, rule, array_schema(number_schema("number", rule), rule), v);
}
void SchemaWriter::field(std::string_view key, std::vector<std::string>& v, std::string_view doc, const Rule& rule) {
  put(key, doc, rule, array_schema(string_schema(rule), rule), v);
}

bool SchemaWriter::begin_object(std::string_view key, std::string_view doc, const Rule& rule) {
  frames_.emplace_back();
  frames_.back().key = key;
  frames_.back().doc = doc;
  frames_.back().is_required = rule.is_required;
  return true;
}

void SchemaWriter::end_object() {
  Frame done = std::move(frames_.back());
  frames_.pop_back();
  if (done.is_required) frames_.back().required_keys.push_back(done.key);
  frames_.back().properties[done.key] = object_schema(done);
}

int64_t SchemaWriter::begin_array(std::string_view key, int64_t, std::string_view doc, const Rule& rule) {
  frames_.emplace_back();
  frames_.back().key = key;
  frames_.back().doc = doc;
  frames_.back().is_required = rule.is_required;
  return 0;
}

void SchemaWriter::begin_element(int64_t) { frames_.emplace_back(); }

void SchemaWriter::end_element() {
  Frame done = std::move(frames_.back());
  frames_.pop_back();
  frames_.back().items = object_schema(done);
}

void SchemaWriter::end_array() {
  Frame done = std::move(frames_.back());
  frames_.pop_back();
  ordered_json s = {{"type", "array"}};
  if (!done.doc.empty()) s["description"] = done.doc;
  s["items"] = std::move(done.items);
  if (done.is_required)
    frames_.back().required_keys.push_back(done.key);
  else
    s["default"] = ordered_json::array();
  frames_.back().properties[done.key] = std::move(s);
}

}  // namespace trainctl
