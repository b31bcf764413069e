// lib/base/config_read.cpp -- every fault of a value: type, bounds, choices, missing keys.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/config_reader.h"

namespace trainctl {
namespace {

// "the string \"8\"", "the integer 3", "null"
std::string describe_value(const JsonNode& node) {
  const std::string_view type = node.type_name();
  if (type == "null") return "null";
  if (type == "array" || type == "object") return fmt::format("an {} {}", type, clipped(node.text()));
  return fmt::format("the {} {}", type, clipped(node.text()));
}

// A string that spells a JSON number or boolean is nearly always a value with quotes too many.
std::string hint(const JsonNode& node, std::string_view wanted) {
  if (node.as<std::nullptr_t>()) return "; leave the key out to use its default";
  if (const std::string* s = node.as<std::string>()) {
    const ParsedJson inner = parse_json_lenient(*s);
    const std::string_view type = inner.complete && inner.faults.empty() ? inner.root.type_name() : "";
    const bool number = type == "integer" || (type == "number" && wanted != "integer");
    if ((wanted == "boolean" && type == "boolean") || ((wanted == "integer" || wanted == "number") && number))
      return fmt::format("; write {} without quotes", *s);
    if (wanted == "boolean" && (*s == "yes" || *s == "on" || *s == "True")) return "; write true without quotes";
    if (wanted == "boolean" && (*s == "no" || *s == "off" || *s == "False")) return "; write false without quotes";
  }
  if (wanted == "boolean" && node.text() == "1") return "; write true";
  if (wanted == "boolean" && node.text() == "0") return "; write false";
  if (wanted == "string" && (node.as<int64_t>() || node.as<double>() || node.as<bool>()))
    return fmt::format("; write {} in double quotes", node.text());
  return "";
}

// The fault of JSON given with --set that could not be taken as JSON: 1e400, NaN, "[1,"; "" for any other value. Such
// text is kept as a string, because a key that takes strings may mean it so.
std::string fault_of_override(const JsonNode& node) {
  const std::string* s = node.as<std::string>();
  if (s == nullptr || node.origin.empty()) return "";
  const ParsedJson inner = parse_json_lenient(*s);
  const bool container = s->starts_with('[') || s->starts_with('{');
  if (inner.faults.empty() || !(inner.complete || container)) return "";
  const Fault& first = inner.faults.front();
  if (!container) return first.message;
  return fmt::format("{} is no JSON; character {}: {}", clipped(*s), first.position.column, first.message);
}

// What a message says after "must be ...": ", found the string \"8\"; write 8 without quotes".
std::string but_found(const JsonNode& node, std::string_view wanted) {
  if (const std::string fault = fault_of_override(node); !fault.empty()) return ": " + fault;
  return fmt::format(", found {}{}", describe_value(node), hint(node, wanted));
}

std::string with_bounds(std::string_view what, const Rule& rule) {
  const std::string bounds = rule.bounds_text();
  return bounds.empty() ? std::string(what) : fmt::format("{} {}", what, bounds);
}

std::string list_of(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& w : words) out += (out.empty() ? "" : ", ") + in_quotes(w);
  return out;
}

// An integer, also when written 8.0 or 1e6 (JSON Schema's "integer" takes those too). Empty: none, or too large.
std::optional<int64_t> as_integer(const JsonNode& node) {
  if (const int64_t* i = node.as<int64_t>()) return *i;
  if (const double* d = node.as<double>(); d && std::floor(*d) == *d && std::abs(*d) <= 9007199254740992.0)
    return static_cast<int64_t>(*d);
  return std::nullopt;
}

// Empty: in bounds. Else what is wrong with `x`, with the nearest legal value where there is one.
std::string out_of_bounds(double x, const Rule& rule, bool is_integer) {
  const bool low = rule.minimum && (rule.exclusive_minimum ? !(x > *rule.minimum) : !(x >= *rule.minimum));
  const bool high = rule.maximum && (rule.exclusive_maximum ? !(x < *rule.maximum) : !(x <= *rule.maximum));
  if (!low && !high) return "";
  const double bound = low ? *rule.minimum : *rule.maximum;
  const bool open = low ? rule.exclusive_minimum : rule.exclusive_maximum;
  const std::string must = fmt::format("must be {}", rule.bounds_text());
  if (open && !is_integer) return must;
  return fmt::format("{}; the nearest legal value is {}", must, open ? bound + (low ? 1 : -1) : bound);
}

// For a whole number that int64_t, or a double exactly, cannot hold; `bound`: the key's own on that side.
std::string beyond_integers(const std::optional<double>& bound) {
  return bound ? fmt::format("; the nearest legal value is {}", *bound)
               : fmt::format("; it is no 64-bit integer: plain digits, {} to {}", INT64_MIN, INT64_MAX);
}

}  // namespace

ConfigReader::ConfigReader(const JsonNode& root, const KeyCollector& legal, ConfigSource& source,
                           std::vector<Fault>& faults)
    : legal_(legal), source_(source), faults_(faults) {
  frames_.push_back({&root, "", {}});
  source_.position.emplace("", root.position);
  if (!root.as<JsonNode::Object>() && !root.broken)
    report("", root, fmt::format("the file must hold a JSON object {{ ... }}, found {}", describe_value(root)));
}

void ConfigReader::report(const std::string& path, const JsonNode& at, std::string message) {
  if (!at.origin.empty()) message += fmt::format(" (set by {})", at.origin);
  faults_.push_back({path, at.position, std::move(message)});
  source_.broken.insert(path);
}

std::string ConfigReader::path_of(std::string_view key) const { return join_path(frames_.back().path, key); }

const JsonNode* ConfigReader::take(std::string_view key, const Rule& rule, std::string_view what) {
  Frame& frame = frames_.back();
  frame.known.emplace(key);
  const JsonNode* node = frame.node->find(key);
  const std::string path = path_of(key);
  if (node == nullptr) {
    if (rule.is_required && frame.node->as<JsonNode::Object>()) {
      const std::string in = frame.path.empty() ? std::string("the file") : in_quotes(frame.path);
      missing_.insert(path);
      report(path, *frame.node,
             what == "object" || what == "array"
                 ? fmt::format("required {} {} is missing", what == "object" ? "section" : "array", in_quotes(key))
                 : fmt::format("required key {} is missing in {}; it takes {}", in_quotes(key), in, what));
    }
    return nullptr;
  }
  source_.position.emplace(path, node->position);
  if (!node->origin.empty()) source_.override_of.emplace(path, node->origin);
  if (!rule.inapplicable.empty()) {
    report(path, *node, fmt::format("{} does not apply here: {}; remove it", in_quotes(key), rule.inapplicable));
    return nullptr;
  }
  if (!node->broken) return node;
  source_.broken.insert(path);
  return nullptr;
}

bool ConfigReader::read(const std::string& path, const JsonNode& node, const Rule& rule, int64_t& out) {
  const std::optional<int64_t> value = as_integer(node);
  if (!value) {
    std::string why = fmt::format("must be {}{}", with_bounds("an integer", rule), but_found(node, "integer"));
    const double* d = node.as<double>();
    if (node.as<uint64_t>() || (d != nullptr && std::floor(*d) == *d))
      why += beyond_integers(d != nullptr && *d < 0 ? rule.minimum : rule.maximum);
    else if (d != nullptr)
      why += fmt::format("; the nearest integer is {:.0f}", *d);
    report(path, node, why);
    return false;
  }
  if (const std::string why = out_of_bounds(static_cast<double>(*value), rule, true); !why.empty()) {
    report(path, node, fmt::format("{} {}", *value, why));
    return false;
  }
  out = *value;
  return true;
}

bool ConfigReader::read(const std::string& path, const JsonNode& node, const Rule& rule, double& out) {
  double value = 0;
  if (const double* d = node.as<double>()) {
    value = *d;
  } else if (const int64_t* i = node.as<int64_t>()) {
    value = static_cast<double>(*i);
  } else if (const uint64_t* u = node.as<uint64_t>()) {
    value = static_cast<double>(*u);
  } else {
    report(path, node, fmt::format("must be {}{}", with_bounds("a number", rule), but_found(node, "number")));
    return false;
  }
  if (const std::string why = out_of_bounds(value, rule, false); !why.empty()) {
    report(path, node, fmt::format("{} {}", value, why));
    return false;
  }
  out = value;
  return true;
}

bool ConfigReader::read(const std::string& path, const JsonNode& node, const Rule& rule, std::string& out) {
  const std::string* value = node.as<std::string>();
  if (value == nullptr) {
    report(path, node,
           fmt::format("must be {}, found {}{}", rule.choices.empty() ? "a string" : "one of " + list_of(rule.choices),
                       describe_value(node),
                       rule.choices.empty() || node.as<std::nullptr_t>() ? hint(node, "string") : ""));
    return false;
  }
  if (std::find(rule.absent.begin(), rule.absent.end(), *value) != rule.absent.end()) {
    report(path, node, fmt::format("{} is not in this build; it has {}", in_quotes(*value), list_of(rule.choices)));
    return false;
  }
  bool legal = rule.choices.empty();
  for (const std::string& choice : rule.choices) legal = legal || choice == *value;
  if (!legal) {
    const std::string near = nearest(*value, rule.choices);
    report(path, node,
           fmt::format("{} is not one of {}{}", clipped(in_quotes(*value)), list_of(rule.choices),
                       near.empty() ? "" : fmt::format("; did you mean {}?", in_quotes(near))));
    return false;
  }
  out = *value;
  return true;
}

void ConfigReader::field(std::string_view key, bool& v, std::string_view, const Rule& rule) {
  const JsonNode* node = take(key, rule, "true or false");
  if (node == nullptr) return;
  if (const bool* value = node->as<bool>())
    v = *value;
  else
    report(path_of(key), *node, "must be true or false" + but_found(*node, "boolean"));
}

void ConfigReader::field(std::string_view key, int64_t& v, std::string_view, const Rule& rule) {
  if (const JsonNode* node = take(key, rule, with_bounds("an integer", rule))) read(path_of(key), *node, rule, v);
}

void ConfigReader::field(std::string_view key, double& v, std::string_view, const Rule& rule) {
  if (const JsonNode* node = take(key, rule, with_bounds("a number", rule))) read(path_of(key), *node, rule, v);
}

void ConfigReader::field(std::string_view key, std::string& v, std::string_view, const Rule& rule) {
  const std::string what = rule.choices.empty() ? "a string" : "one of " + list_of(rule.choices);
  if (const JsonNode* node = take(key, rule, what)) read(path_of(key), *node, rule, v);
}

void ConfigReader::field(std::string_view key, IntOrWord& v, std::string_view, const Rule& rule) {
  const std::string what = fmt::format("{} or {}", with_bounds("an integer", rule), in_quotes(rule.word));
  const JsonNode* node = take(key, rule, what);
  if (node == nullptr) return;
  const std::string* word = node->as<std::string>();
  int64_t number = 0;
  if (word != nullptr && *word == rule.word) {
    v.value.reset();
  } else if (word != nullptr || !(node->as<int64_t>() || node->as<double>() || node->as<uint64_t>())) {
    const bool near = word != nullptr && !nearest(*word, {rule.word}).empty();
    report(path_of(key), *node,
           fmt::format("must be {}{}", what,
                       near ? fmt::format(", found {}; did you mean {}?", describe_value(*node), in_quotes(rule.word))
                            : but_found(*node, "integer")));
  } else if (read(path_of(key), *node, rule, number)) {
    v.value = number;
  }
}

template <class T>
void ConfigReader::read_optional(std::string_view key, std::optional<T>& out, const Rule& rule, std::string_view what) {
  const JsonNode* node = take(key, rule, what);
  if (node == nullptr) return;
  T value{};
  if (node->as<std::nullptr_t>())
    out.reset();
  else if (read(path_of(key), *node, rule, value))
    out = std::move(value);
}

void ConfigReader::field(std::string_view key, std::optional<int64_t>& v, std::string_view, const Rule& rule) {
  read_optional(key, v, rule, with_bounds("an integer", rule));
}
void ConfigReader::field(std::string_view key, std::optional<double>& v, std::string_view, const Rule& rule) {
  read_optional(key, v, rule, with_bounds("a number", rule));
}
void ConfigReader::field(std::string_view key, std::optional<std::string>& v, std::string_view, const Rule& rule) {
  read_optional(key, v, rule, "a string");
}

template <class T>
void ConfigReader::read_array(std::string_view key, std::vector<T>& out, const Rule& rule, std::string_view what) {
  const JsonNode* node = take(key, rule, fmt::format("an array of {}", what));
  if (node == nullptr) return;
  const std::string path = path_of(key);
  const JsonNode::Array* items = node->as<JsonNode::Array>();
  if (items == nullptr) {
    report(path, *node, fmt::format("must be an array of {}{}", what, but_found(*node, "array")));
    return;
  }
  if (rule.length && static_cast<int64_t>(items->size()) != *rule.length) {
    report(path, *node, fmt::format("must hold exactly {} {}, found {}", *rule.length, what, items->size()));
    return;
  }
  std::vector<T> values(items->size());
  bool good = true;
  for (size_t i = 0; i < items->size(); ++i) {
    const std::string element = fmt::format("{}[{}]", path, i);
    source_.position.emplace(element, (*items)[i].position);
    good = !(*items)[i].broken && read(element, (*items)[i], rule, values[i]) && good;
  }
  if (good) out = std::move(values);
}

void ConfigReader::field(std::string_view key, std::vector<int64_t>& v, std::string_view, const Rule& rule) {
  read_array(key, v, rule, "integers");
}
void ConfigReader::field(std::string_view key, std::vector<double>& v, std::string_view, const Rule& rule) {
  read_array(key, v, rule, "numbers");
}
void ConfigReader::field(std::string_view key, std::vector<std::string>& v, std::string_view, const Rule& rule) {
  read_array(key, v, rule, "strings");
}

bool ConfigReader::begin_object(std::string_view key, std::string_view, const Rule& rule) {
  const JsonNode* node = take(key, rule, "object");
  if (node == nullptr) return false;
  if (!node->as<JsonNode::Object>()) {
    report(path_of(key), *node, "must be an object { ... }" + but_found(*node, "object"));
    return false;
  }
  frames_.push_back({node, path_of(key), {}});
  return true;
}

int64_t ConfigReader::begin_array(std::string_view key, int64_t count, std::string_view, const Rule& rule) {
  const JsonNode* node = take(key, rule, "array");
  arrays_.push_back({node, path_of(key)});
  if (node == nullptr) return count;
  const JsonNode::Array* items = node->as<JsonNode::Array>();
  if (items == nullptr) {
    report(path_of(key), *node, "must be an array [ ... ] of objects" + but_found(*node, "array"));
    arrays_.back().node = nullptr;
    return count;
  }
  return static_cast<int64_t>(items->size());
}

// Elements of an absent array are defaults: they are visited against an empty object and stay as they are.
void ConfigReader::begin_element(int64_t index) {
  static const JsonNode empty;
  const OpenArray& array = arrays_.back();
  const std::string path = fmt::format("{}[{}]", array.path, index);
  if (array.node == nullptr) {
    frames_.push_back({&empty, path, {}});
    return;
  }
  const JsonNode& node = (*array.node->as<JsonNode::Array>())[static_cast<size_t>(index)];
  source_.position.emplace(path, node.position);
  if (!node.origin.empty()) source_.override_of.emplace(path, node.origin);
  frames_.push_back({&node, path, {}});
  if (!node.as<JsonNode::Object>() && !node.broken)
    report(path, node, fmt::format("must be an object {{ ... }}, found {}", describe_value(node)));
}

void ConfigReader::leave() {
  const Frame frame = std::move(frames_.back());
  frames_.pop_back();
  const JsonNode::Object* members = frame.node->as<JsonNode::Object>();
  if (members == nullptr) return;
  for (const JsonNode::Member& m : *members) {
    if (frame.known.find(m.key) != frame.known.end()) continue;
    const std::string meant = report_unknown(frame, m);
    if (meant.empty()) continue;
    // One slip, one fault: a misspelt key is not missing as well, and no rule speaks about its default.
    const std::string path = join_path(frame.path, meant);
    if (missing_.count(path) != 0) std::erase_if(faults_, [&path](const Fault& f) { return f.path == path; });
    if (!source_.given(path)) source_.broken.insert(path);
  }
}

void ConfigReader::finish() { leave(); }

}  // namespace trainctl
