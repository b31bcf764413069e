// lib/base/config_visitor.cpp -- rules, dotted paths and provenance.
#include "base/config_visitor.h"

#include <fmt/format.h>

namespace trainctl {

Rule Rule::required() const {
  Rule r = *this;
  r.is_required = true;
  return r;
}

Rule Rule::with_word(std::string w) const {
  Rule r = *this;
  r.word = std::move(w);
  return r;
}

Rule Rule::with_length(int64_t n) const {
  Rule r = *this;
  r.length = n;
  return r;
}

Rule Rule::also_called(std::vector<std::string> names) const {
  Rule r = *this;
  r.aliases = std::move(names);
  return r;
}

Rule Rule::not_built(std::vector<std::string> names) const {
  Rule r = *this;
  r.absent = std::move(names);
  return r;
}

Rule Rule::only_if(bool applies, std::string why) const {
  Rule r = *this;
  r.inapplicable = applies ? "" : std::move(why);
  return r;
}

std::string Rule::bounds_text() const {
  if (minimum && maximum)
    return fmt::format("in {}{}, {}{}", exclusive_minimum ? "(" : "[", *minimum, *maximum,
                       exclusive_maximum ? ")" : "]");
  if (minimum) return fmt::format("{} {}", exclusive_minimum ? ">" : ">=", *minimum);
  if (maximum) return fmt::format("{} {}", exclusive_maximum ? "<" : "<=", *maximum);
  return "";
}

Rule at_least(double minimum) {
  Rule r;
  r.minimum = minimum;
  return r;
}

Rule above(double minimum) {
  Rule r = at_least(minimum);
  r.exclusive_minimum = true;
  return r;
}

Rule between(double minimum, double maximum) {
  Rule r = at_least(minimum);
  r.maximum = maximum;
  return r;
}

Rule from_to_below(double minimum, double maximum) {
  Rule r = between(minimum, maximum);
  r.exclusive_maximum = true;
  return r;
}

Rule one_of(std::vector<std::string> choices) {
  Rule r;
  r.choices = std::move(choices);
  return r;
}

std::string_view parent_path(std::string_view path) {
  const size_t cut = path.find_last_of(".[");
  return cut == std::string_view::npos ? std::string_view() : path.substr(0, cut);
}

std::string join_path(std::string_view parent, std::string_view key) {
  return parent.empty() || key.starts_with('[') ? fmt::format("{}{}", parent, key) : fmt::format("{}.{}", parent, key);
}

bool ConfigSource::usable(std::string_view path) const {
  for (; !path.empty(); path = parent_path(path))
    if (broken.count(std::string(path)) != 0) return false;
  return broken.count("") == 0;
}

Fault ConfigSource::fault(std::string path, std::string message) const {
  Fault f{std::move(path), {}, std::move(message)};
  for (std::string_view at = f.path;; at = parent_path(at)) {
    const std::string key(at);
    if (const auto set = override_of.find(key); set != override_of.end()) {
      f.message += fmt::format(" (set by {})", set->second);
      break;
    }
    if (const auto found = position.find(key); found != position.end()) {
      f.position = found->second;
      break;
    }
    if (at.empty()) break;
  }
  return f;
}

}  // namespace trainctl
