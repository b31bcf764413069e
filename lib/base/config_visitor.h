// lib/base/config_visitor.h -- one description of a config struct, used three ways: read it, write it, print its
// schema.
//
// A config is a plain struct with one member function that names its fields:
//
//   struct OptimizerConfig {
//     std::string kind = "adamw";
//     double lr = 0;
//     void describe(ConfigVisitor& v) {
//       v.field("kind", kind, "update rule", one_of({"adamw", "sgd"}));
//       v.field("lr", lr, "peak learning rate", above(0).required().also_called({"learning_rate"}));
//     }
//   };
//
// base/config_io.h has read_config (fills the struct from a JsonNode and collects every fault), write_config (JSON with
// every field explicit) and schema_of (a JSON Schema, draft 2020-12).
#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_node.h"

namespace trainctl {

// An integer, or one fixed word in its place ("fill", "tokenizer", "auto"). value empty: the word.
struct IntOrWord {
  std::optional<int64_t> value;
  bool operator==(const IntOrWord&) const = default;
};

// What a field may hold. Bounds and choices apply to a scalar and to every element of an array of scalars.
struct Rule {
  std::optional<double> minimum, maximum;
  bool exclusive_minimum = false;
  bool exclusive_maximum = false;
  std::vector<std::string> choices;  // strings only
  std::vector<std::string> absent;   // strings only: real names that this build does not have, refused by name
  std::string word;                  // IntOrWord only
  bool is_required = false;
  std::optional<int64_t> length;     // arrays of scalars only
  std::string inapplicable;          // not empty: why the key means nothing here
  std::vector<std::string> aliases;  // names other stacks use: never accepted, only recognised in error messages

  Rule required() const;
  Rule with_word(std::string w) const;
  Rule with_length(int64_t n) const;
  Rule also_called(std::vector<std::string> names) const;
  Rule not_built(std::vector<std::string> names) const;
  // Sections only. False: the section means nothing beside the values already read; the reader refuses it with `why`,
  // the writer leaves it out. Depends on fields described before this one.
  Rule only_if(bool applies, std::string why) const;
  std::string bounds_text() const;  // ">= 1", "in [0, 1)", "" without bounds
};
Rule at_least(double minimum);
Rule above(double minimum);
Rule between(double minimum, double maximum);        // inclusive
Rule from_to_below(double minimum, double maximum);  // [minimum, maximum)
Rule one_of(std::vector<std::string> choices);

class ConfigVisitor;
template <class T>
concept Describable = requires(T& t, ConfigVisitor& v) {
  t.describe(v);
};

class ConfigVisitor {
 public:
  virtual ~ConfigVisitor() = default;

  // Scalars. `v` holds the default on entry.
  virtual void field(std::string_view key, bool& v, std::string_view doc, const Rule& rule = {}) = 0;
  virtual void field(std::string_view key, int64_t& v, std::string_view doc, const Rule& rule = {}) = 0;
  virtual void field(std::string_view key, double& v, std::string_view doc, const Rule& rule = {}) = 0;
  virtual void field(std::string_view key, std::string& v, std::string_view doc, const Rule& rule = {}) = 0;
  virtual void field(std::string_view key, IntOrWord& v, std::string_view doc, const Rule& rule = {}) = 0;
  // Optional scalars: absent or null stays empty.
  virtual void field(std::string_view key, std::optional<int64_t>& v, std::string_view doc, const Rule& rule = {}) = 0;
  virtual void field(std::string_view key, std::optional<double>& v, std::string_view doc, const Rule& rule = {}) = 0;
  virtual void field(std::string_view key, std::optional<std::string>& v, std::string_view doc, const Rule& r = {}) = 0;
  // Arrays of scalars.
  virtual void field(std::string_view key, std::vector<int64_t>& v, std::string_view doc, const Rule& rule = {}) = 0;
  virtual void field(std::string_view key, std::vector<double>& v, std::string_view doc, const Rule& rule = {}) = 0;
  virtual void field(std::string_view key, std::vector<std::string>& v, std::string_view doc, const Rule& r = {}) = 0;

  // A nested object: any struct with describe(ConfigVisitor&). Absent or inapplicable: it keeps its defaults.
  template <Describable T>
  void field(std::string_view key, T& sub, std::string_view doc, const Rule& rule = {}) {
    if (begin_object(key, doc, rule)) {
      sub.describe(*this);
      end_object();
    }
  }
  // An array of objects.
  template <Describable T>
  void field(std::string_view key, std::vector<T>& items, std::string_view doc, const Rule& rule = {}) {
    items.resize(static_cast<size_t>(begin_array(key, static_cast<int64_t>(items.size()), doc, rule)));
    if (wants_example() && items.empty()) {
      T example{};
      begin_element(0);
      example.describe(*this);
      end_element();
    }
    for (size_t i = 0; i < items.size(); ++i) {
      begin_element(static_cast<int64_t>(i));
      items[i].describe(*this);
      end_element();
    }
    end_array();
  }

 protected:
  // True for visitors of the type rather than of a value (schema, key list): they see one element of an empty array.
  virtual bool wants_example() const { return false; }
  virtual bool begin_object(std::string_view key, std::string_view doc, const Rule& rule) = 0;  // false: skip it
  virtual void end_object() = 0;
  // Reader: returns how many elements the file has; writer: returns `count`; visitors of the type: return 0.
  virtual int64_t begin_array(std::string_view key, int64_t count, std::string_view doc, const Rule& rule) = 0;
  virtual void begin_element(int64_t index) = 0;
  virtual void end_element() = 0;
  virtual void end_array() = 0;
};

// Where each value came from, so that later checks can point at it.
struct ConfigSource {
  std::string source;                              // file name for messages
  std::map<std::string, TextPosition> position;    // dotted path -> where its value stands; absent: a default
  std::map<std::string, std::string> override_of;  // dotted path -> the --set expression it came from
  std::set<std::string> broken;  // dotted paths whose value is faulty or missing: rules on them say nothing more
  bool given(const std::string& path) const { return position.count(path) != 0; }
  // Neither `path` nor a key that encloses it is broken.
  bool usable(std::string_view path) const;
  // Position and --set note of `path`, or of the nearest key that encloses it.
  Fault fault(std::string path, std::string message) const;
};

// "data.train[0].weight" -> "data.train[0]" -> "data.train" -> "data" -> "".
std::string_view parent_path(std::string_view path);
std::string join_path(std::string_view parent, std::string_view key);

}  // namespace trainctl
