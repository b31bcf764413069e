// lib/base/config_reader.h -- fills a config struct from parsed JSON and collects every fault.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/config_visitor.h"

namespace trainctl {

// Every legal key of a config type, with the names it goes by elsewhere. Array elements have the path "data.train[]".
class KeyCollector final : public ConfigVisitor {
 public:
  struct Key {
    std::string section;  // "" at the top
    std::string name;
    std::vector<std::string> aliases;
  };
  const std::vector<Key>& keys() const { return keys_; }

  void field(std::string_view key, bool&, std::string_view, const Rule& rule) override { add(key, rule); }
  void field(std::string_view key, int64_t&, std::string_view, const Rule& rule) override { add(key, rule); }
  void field(std::string_view key, double&, std::string_view, const Rule& rule) override { add(key, rule); }
  void field(std::string_view key, std::string&, std::string_view, const Rule& rule) override { add(key, rule); }
  void field(std::string_view key, IntOrWord&, std::string_view, const Rule& rule) override { add(key, rule); }
  void field(std::string_view key, std::optional<int64_t>&, std::string_view, const Rule& r) override { add(key, r); }
  void field(std::string_view key, std::optional<double>&, std::string_view, const Rule& r) override { add(key, r); }
  void field(std::string_view key, std::optional<std::string>&, std::string_view, const Rule& r) override {
    add(key, r);
  }
  void field(std::string_view key, std::vector<int64_t>&, std::string_view, const Rule& r) override { add(key, r); }
  void field(std::string_view key, std::vector<double>&, std::string_view, const Rule& r) override { add(key, r); }
  void field(std::string_view key, std::vector<std::string>&, std::string_view, const Rule& r) override { add(key, r); }

 protected:
  bool wants_example() const override { return true; }
  bool begin_object(std::string_view key, std::string_view doc, const Rule& rule) override;
  void end_object() override { path_.pop_back(); }
  int64_t begin_array(std::string_view key, int64_t count, std::string_view doc, const Rule& rule) override;
  void begin_element(int64_t) override {}
  void end_element() override {}
  void end_array() override { path_.pop_back(); }

 private:
  void add(std::string_view key, const Rule& rule);
  std::vector<std::string> path_ = {""};
  std::vector<Key> keys_;
};

class ConfigReader final : public ConfigVisitor {
 public:
  // All references must outlive the reader.
  ConfigReader(const JsonNode& root, const KeyCollector& legal, ConfigSource& source, std::vector<Fault>& faults);
  void finish();  // the root's unknown keys

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
  bool begin_object(std::string_view key, std::string_view doc, const Rule& rule) override;
  void end_object() override { leave(); }
  int64_t begin_array(std::string_view key, int64_t count, std::string_view doc, const Rule& rule) override;
  void begin_element(int64_t index) override;
  void end_element() override { leave(); }
  void end_array() override { arrays_.pop_back(); }

 private:
  struct Frame {
    const JsonNode* node;  // an object, or an element of another type (then faulted, and treated as empty)
    std::string path;
    std::set<std::string, std::less<>> known;
  };
  struct OpenArray {
    const JsonNode* node;  // null: absent
    std::string path;
  };
  // The value of `key` in the open object, or null: absent (a fault when required) or already faulted.
  const JsonNode* take(std::string_view key, const Rule& rule, std::string_view what);
  void leave();
  void report(const std::string& path, const JsonNode& at, std::string message);
  // Returns the key of this section that was probably meant, "" when none was.
  std::string report_unknown(const Frame& frame, const JsonNode::Member& member);
  std::string path_of(std::string_view key) const;

  // Each checks one value and reports its fault under `path`; false: `out` is untouched.
  bool read(const std::string& path, const JsonNode& node, const Rule& rule, int64_t& out);
  bool read(const std::string& path, const JsonNode& node, const Rule& rule, double& out);
  bool read(const std::string& path, const JsonNode& node, const Rule& rule, std::string& out);
  template <class T>
  void read_array(std::string_view key, std::vector<T>& out, const Rule& rule, std::string_view what);
  template <class T>
  void read_optional(std::string_view key, std::optional<T>& out, const Rule& rule, std::string_view what);

  const KeyCollector& legal_;
  ConfigSource& source_;
  std::vector<Fault>& faults_;
  std::vector<Frame> frames_;
  std::vector<OpenArray> arrays_;
  std::set<std::string> missing_;  // required keys that were reported as missing
};

}  // namespace trainctl
