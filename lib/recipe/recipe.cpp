// lib/recipe/recipe.cpp -- the sections, and recipes from and to JSON.
#include "recipe/recipe.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/config_io.h"
#include "base/error.h"

namespace trainctl {
namespace {

// The value at "data.train[0].weight", or null.
const JsonNode* find_path(const JsonNode& root, std::string_view path) {
  const JsonNode* node = &root;
  while (node != nullptr && !path.empty()) {
    if (path.front() == '[') {
      const size_t close = path.find(']');
      const JsonNode::Array* items = node->as<JsonNode::Array>();
      const auto index = static_cast<size_t>(std::stoull(std::string(path.substr(1, close - 1))));
      node = items != nullptr && index < items->size() ? &(*items)[index] : nullptr;
      path.remove_prefix(close + 1);
    } else {
      const std::string_view key = path.substr(0, path.find_first_of(".["));
      node = node->find(key);
      path.remove_prefix(key.size());
    }
    if (!path.empty() && path.front() == '.') path.remove_prefix(1);
  }
  return node;
}

}  // namespace

void Recipe::describe(ConfigVisitor& v) {
  v.field("name", name, "names the run directory: letters, digits, '.', '_' and '-'",
          Rule{}.required().also_called({"run_name", "experiment"}));
  v.field("model", model, "the architecture", Rule{}.required());
  v.field("data", data, "what it learns from", Rule{}.required().also_called({"dataset"}));
  v.field("parallelism", parallelism, "how it is laid out over ranks",
          Rule{}.also_called({"parallel", "distributed", "layout"}));
  v.field("optimizer", optimizer, "how parameters move", Rule{}.required().also_called({"optim"}));
  v.field("runtime", runtime, "steps, batch, device and precision",
          Rule{}.required().also_called({"training", "trainer", "train"}));
  v.field("checkpoint", checkpoint, "when state is saved", Rule{}.also_called({"checkpointing", "checkpoints"}));
}

LoadedRecipe load_recipe_text(std::string_view text, std::string_view source,
                              const std::vector<std::string>& overrides) {
  ParsedJson parsed = parse_json_lenient(text);
  if (!parsed.complete) refuse_faults(source, parsed.faults);
  std::vector<Fault> faults = std::move(parsed.faults);

  LoadedRecipe loaded;
  loaded.source.source = source;
  loaded.overrides = overrides;
  const JsonNode original = overrides.empty() ? JsonNode{} : parsed.root;
  for (const std::string& expression : overrides) {
    apply_override(parsed.root, expression);
    const std::string path = expression.substr(0, expression.find('='));
    if (const JsonNode* before = find_path(original, path))
      loaded.replaced[path] =
          fmt::format("{} at line {}, column {}", before->text(), before->position.line, before->position.column);
  }
  read_config(parsed.root, loaded.recipe, loaded.source, faults);
  for (Fault& f : validate(loaded.recipe, loaded.source)) faults.push_back(std::move(f));
  refuse_faults(source, faults);
  return loaded;
}

LoadedRecipe load_recipe(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  std::string text;
  try {
    text = read_file(path);
  } catch (const Error& e) {
    fail(e.kind(), fmt::format("the recipe: {}; give the path of a recipe file (JSON)", e.what()));
  }
  return load_recipe_text(text, path.string(), overrides);
}

Recipe recipe_from_json(const nlohmann::json& resolved) {
  return load_recipe_text(resolved.dump(), "the resolved recipe").recipe;
}

nlohmann::ordered_json recipe_to_json(const Recipe& recipe) { return write_config(recipe); }

nlohmann::ordered_json recipe_schema() { return schema_of<Recipe>("trainctl recipe"); }

}  // namespace trainctl
