// lib/trainer/recorded_recipe.cpp -- provenance, key by key.
#include "trainer/recorded_recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/config_io.h"

namespace trainctl {
namespace {

using nlohmann::json;

// The recorded section at `path` ("/recipe/model"), flat; empty when there is none.
json flat_section(const json& provenance, const char* path) {
  const json::json_pointer at(path);
  return provenance.is_object() && provenance.contains(at) && provenance[at].is_object() ? provenance[at].flatten()
                                                                                         : json::object();
}

std::string dotted(std::string_view section, const std::string& pointer) {
  std::string key = fmt::format("{}{}", section, pointer);
  std::replace(key.begin(), key.end(), '/', '.');
  return key;
}

void append(std::string& list, const std::string& entry) { list += (list.empty() ? "" : ", ") + entry; }

// Seen by training alone, or already by the data, which are compared elsewhere.
bool trains_only(std::string_view pointer) {
  return pointer == "/init_std" || pointer == "/dropout" || pointer == "/max_positions" || pointer == "/param_dtype";
}

bool may_be_meant(std::string_view pointer) { return pointer == "/norm_eps" || pointer.starts_with("/rope"); }

}  // namespace

RecordedRecipe compare_recorded_model(const Manifest& manifest, const ModelConfig& here) {
  const json provenance = json::parse(manifest.provenance, nullptr, /*allow_exceptions=*/false);
  json there = flat_section(provenance, "/recipe/model");
  if (there.empty()) there = flat_section(provenance, "/model");
  const json mine = json(write_config(here)).flatten();
  RecordedRecipe result;
  for (const auto& [pointer, value] : there.items()) {
    if (trains_only(pointer) || !mine.contains(pointer)) continue;
    const json& now = mine[pointer];
    if (now == value || now.is_null() || value.is_null()) continue;
    const std::string key = dotted("model", pointer);
    const std::string difference = fmt::format("{} is {} here and {} there", key, now.dump(), value.dump());
    if (may_be_meant(pointer)) {
      result.told.push_back(difference);
      continue;
    }
    append(result.misfit, difference);
    append(result.remedy, fmt::format("{} to {}", key, value.dump()));
  }
  return result;
}

RecipeVerdict judge_recorded_recipe(const Manifest& manifest, const Recipe& here) {
  const RecordedRecipe model = compare_recorded_model(manifest, here.model);
  RecipeVerdict verdict{model.misfit.empty(), model.misfit, model.remedy};
  const json provenance = json::parse(manifest.provenance, nullptr, /*allow_exceptions=*/false);
  const json mine = recipe_to_json(here);
  for (const char* path : {"/model/param_dtype", "/runtime/precision", "/optimizer/kind", "/optimizer/momentum"}) {
    const json::json_pointer there("/recipe" + std::string(path)), at(path);
    if (!provenance.is_object() || !provenance.contains(there) || !mine.contains(at) || mine[at] == provenance[there])
      continue;
    const std::string key = dotted("", path).substr(1), value = provenance[there].dump();
    append(verdict.differences, fmt::format("{} is {} here and {} there", key, mine[at].dump(), value));
    append(verdict.remedy, fmt::format("{} to {}", key, value));
  }
  return verdict;
}

}  // namespace trainctl
