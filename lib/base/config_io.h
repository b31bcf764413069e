// lib/base/config_io.h -- reads, writes and prints the schema of any struct with describe(ConfigVisitor&).
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "base/config_reader.h"
#include "base/config_visitor.h"
#include "base/config_writer.h"

namespace trainctl {

// Fills `config` from `root` (an object); appends a fault for every unknown key (with the nearest legal one, or the
// section it belongs to), wrong type, broken rule, missing required key. A faulty field keeps its default. Never throws
// for bad content.
template <Describable T>
void read_config(const JsonNode& root, T& config, ConfigSource& source, std::vector<Fault>& faults) {
  KeyCollector keys;
  T().describe(keys);
  ConfigReader reader(root, keys, source, faults);
  config.describe(reader);
  reader.finish();
}

// Every field explicit, in describe() order. Empty optionals are null.
template <Describable T>
nlohmann::ordered_json write_config(const T& config) {
  T copy = config;  // describe() hands out mutable references
  ConfigWriter writer;
  copy.describe(writer);
  return writer.take();
}

// Of a default-constructed T: types, bounds, choices, required keys, defaults, descriptions; unknown keys are refused.
template <Describable T>
nlohmann::ordered_json schema_of(std::string_view title) {
  SchemaWriter writer(title);
  T().describe(writer);
  return writer.take();
}

}  // namespace trainctl
