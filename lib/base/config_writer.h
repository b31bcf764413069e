// lib/base/config_writer.h -- writes a config struct as JSON, and its type as a JSON Schema (draft 2020-12).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/config_visitor.h"

namespace trainctl {

class ConfigWriter final : public ConfigVisitor {
 public:
  ConfigWriter() { open_.push_back(nlohmann::ordered_json::object()); }
  nlohmann::ordered_json take() { return std::move(open_.front()); }

  void field(std::string_view key, bool& v, std::string_view, const Rule&) override { put(key, v); }
  void field(std::string_view key, int64_t& v, std::string_view, const Rule&) override { put(key, v); }
  void field(std::string_view key, double& v, std::string_view, const Rule&) override { put(key, v); }
  void field(std::string_view key, std::string& v, std::string_view, const Rule&) override { put(key, v); }
  void field(std::string_view key, IntOrWord& v, std::string_view, const Rule& rule) override;
  void field(std::string_view key, std::optional<int64_t>& v, std::string_view, const Rule&) override;
  void field(std::string_view key, std::optional<double>& v, std::string_view, const Rule&) override;
  void field(std::string_view key, std::optional<std::string>& v, std::string_view, const Rule&) override;
  void field(std::string_view key, std::vector<int64_t>& v, std::string_view, const Rule&) override { put(key, v); }
  void field(std::string_view key, std::vector<double>& v, std::string_view, const Rule&) override { put(key, v); }
  void field(std::string_view key, std::vector<std::string>& v, std::string_view, const Rule&) override { put(key, v); }

 protected:
  bool begin_object(std::string_view key, std::string_view doc, const Rule& rule) override;
  void end_object() override;
  int64_t begin_array(std::string_view key, int64_t count, std::string_view doc, const Rule& rule) override;
  void begin_element(int64_t index) override;
  void end_element() override;
  void end_array() override { end_object(); }

 private:
  void put(std::string_view key, nlohmann::ordered_json value);
  std::vector<nlohmann::ordered_json> open_;  // objects and arrays under construction, outermost first
  std::vector<std::string> keys_;             // where each of them goes in its parent
};

class SchemaWriter final : public ConfigVisitor {
 public:
  explicit SchemaWriter(std::string_view title);
  nlohmann::ordered_json take();

  void field(std::string_view key, bool& v, std::string_view doc, const Rule& rule) override;
  void field(std::string_view key, int64_t& v, std::string_view doc, const Rule& rule) override;
  void field(std::string_view key, double& v, std::string_view doc, const Rule& rule) override;
  void field(std::string_view key, std::string& v, std::string_view doc, const Rule& rule) override;
  void field(std::string_view key, IntOrWord& v, std::string_view doc, const Rule& rule) override;
  void field(std::string_view key, std::optional<int64_t>& v, std::string_view doc, const Rule& rule) override;
  void field(std::string_view key, std::optional<double>& v, std::string_view doc, const Rule& rule) override;
  void field(std::string_view key, std::optional<std::string>& v, std::string_view doc, const Rule& rule) override;
  void field(std::string_view key, std::vector<int64_t>& v, std::string_view doc, const Rule& rule) override;
  void field(std::string_view key, std::vector<double>& v, std::string_view doc, const Rule& rule) override;
  void field(std::string_view key, std::vector<std::string>& v, std::string_view doc, const Rule& rule) override;

 protected:
  bool wants_example() const override { return true; }
  bool begin_object(std::string_view key, std::string_view doc, const Rule& rule) override;
  void end_object() override;
  int64_t begin_array(std::string_view key, int64_t count, std::string_view doc, const Rule& rule) override;
  void begin_element(int64_t index) override;
  void end_element() override;
  void end_array() override;

 private:
  struct Frame {
    std::string key;
    std::string doc;
    bool is_required = false;
    nlohmann::ordered_json properties = nlohmann::ordered_json::object();
    nlohmann::ordered_json required_keys = nlohmann::ordered_json::array();
    nlohmann::ordered_json items;  // of an array of objects
  };
  static nlohmann::ordered_json object_schema(Frame& frame);
  void put(std::string_view key, std::string_view doc, const Rule& rule, nlohmann::ordered_json schema,
           nlohmann::ordered_json default_value);

  std::string title_;
  std::vector<Frame> frames_;
};

}  // namespace trainctl
