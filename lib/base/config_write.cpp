// lib/base/config_write.cpp -- a config value as JSON.
#include "base/config_writer.h"

namespace trainctl {

using nlohmann::ordered_json;

void ConfigWriter::put(std::string_view key, ordered_json value) { open_.back()[std::string(key)] = std::move(value); }

void ConfigWriter::field(std::string_view key, IntOrWord& v, std::string_view, const Rule& rule) {
  put(key, v.value ? ordered_json(*v.value) : ordered_json(rule.word));
}
void ConfigWriter::field(std::string_view key, std::optional<int64_t>& v, std::string_view, const Rule&) {
  put(key, v ? ordered_json(*v) : ordered_json());
}
void ConfigWriter::field(std::string_view key, std::optional<double>& v, std::string_view, const Rule&) {
  put(key, v ? ordered_json(*v) : ordered_json());
}
void ConfigWriter::field(std::string_view key, std::optional<std::string>& v, std::string_view, const Rule&) {
  put(key, v ? ordered_json(*v) : ordered_json());
}

bool ConfigWriter::begin_object(std::string_view key, std::string_view, const Rule& rule) {
  if (!rule.inapplicable.empty()) return false;
  keys_.emplace_back(key);
  open_.push_back(ordered_json::object());
  return true;
}

void ConfigWriter::end_object() {
  ordered_json done = std::move(open_.back());
  open_.pop_back();
  put(keys_.back(), std::move(done));
  keys_.pop_back();
}

int64_t ConfigWriter::begin_array(std::string_view key, int64_t count, std::string_view, const Rule&) {
  keys_.emplace_back(key);
  open_.push_back(ordered_json::array());
  return count;
}

void ConfigWriter::begin_element(int64_t) { open_.push_back(ordered_json::object()); }

void ConfigWriter::end_element() {
  ordered_json done = std::move(open_.back());
  open_.pop_back();
  open_.back().push_back(std::move(done));
}

}  // namespace trainctl
