// lib/recipe/provenance.cpp -- compares a resolved recipe with what was loaded, key by key.
#include "recipe/provenance.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace trainctl {
namespace {

using nlohmann::ordered_json;

bool is_leaf(const ordered_json& value) {
  return !value.is_object() && !(value.is_array() && !value.empty() && value.front().is_object());
}

std::string origin_of(const LoadedRecipe& loaded, const std::string& path, bool changed) {
  if (changed) return "derived";
  const ConfigSource& source = loaded.source;
  if (const auto set = source.override_of.find(path); set != source.override_of.end()) {
    const auto before = loaded.replaced.find(path);
    return before == loaded.replaced.end() ? set->second : fmt::format("{} instead of {}", set->second, before->second);
  }
  const auto at = source.position.find(path);
  if (at == source.position.end()) return "default";
  return fmt::format("{}:{}:{}", source.source, at->second.line, at->second.column);
}

void walk(const LoadedRecipe& loaded, const std::string& path, const ordered_json& now, const ordered_json* before,
          std::vector<KeyOrigin>& out) {
  if (is_leaf(now)) {
    out.push_back({path, now.dump(), origin_of(loaded, path, before == nullptr || *before != now)});
    return;
  }
  size_t index = 0;
  for (const auto& [key, value] : now.items()) {
    const ordered_json* old = nullptr;
    if (before != nullptr && before->is_object() && before->contains(key)) old = &before->at(key);
    if (before != nullptr && before->is_array() && index < before->size()) old = &before->at(index);
    walk(loaded, join_path(path, now.is_array() ? fmt::format("[{}]", index) : key), value, old, out);
    ++index;
  }
}

}  // namespace

std::vector<KeyOrigin> key_origins(const LoadedRecipe& loaded, const Recipe& resolved) {
  const ordered_json before = recipe_to_json(loaded.recipe);
  std::vector<KeyOrigin> out;
  walk(loaded, "", recipe_to_json(resolved), &before, out);
  return out;
}

}  // namespace trainctl
