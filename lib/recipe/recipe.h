// lib/recipe/recipe.h -- a recipe: all sections together. load (strict), validate (every fault), resolve (a new value).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/config_visitor.h"
#include "checkpoint/checkpoint_config.h"
#include "data/data_config.h"
#include "model/model_config.h"
#include "optim/optimizer_config.h"
#include "parallel/parallelism_config.h"
#include "runtime/runtime_config.h"

namespace trainctl {

struct Recipe {
  std::string name;
  ModelConfig model;
  DataConfig data;
  ParallelismConfig parallelism;
  OptimizerConfig optimizer;
  RuntimeConfig runtime;
  CheckpointConfig checkpoint;
  void describe(ConfigVisitor& v);
};

struct LoadedRecipe {
  Recipe recipe;
  ConfigSource source;
  std::vector<std::string> overrides;           // the --set expressions, in order
  std::map<std::string, std::string> replaced;  // dotted path -> the file's value that an override replaced, and where
};

// Reads a recipe file, applies "section.key=value" overrides, reports every fault of syntax, keys, types and rules, and
// those of validate(), at once. Throws Error{config}; Error{input} when the file cannot be read; Error{usage} for a
// malformed override.
LoadedRecipe load_recipe(const std::filesystem::path& path, const std::vector<std::string>& overrides = {});
// The same for text that is already in memory; `source` names it in messages.
LoadedRecipe load_recipe_text(std::string_view text, std::string_view source,
                              const std::vector<std::string>& overrides = {});
Recipe recipe_from_json(const nlohmann::json& resolved);  // of a resolved recipe (launch.json); throws Error{config}
nlohmann::ordered_json recipe_to_json(const Recipe& recipe);
nlohmann::ordered_json recipe_schema();  // JSON Schema, draft 2020-12

// Rules between fields that need no world size. Never throws; returns every fault.
std::vector<Fault> validate(const Recipe& recipe, const ConfigSource& source);

// Rules that need the number of ranks, then a new value in which every default, "fill" and derived number is explicit:
// data_parallel, the batch numbers, kv_heads, head_dim, d_ff, vocab, max_positions, tie_embeddings, activation,
// pipeline_layers, the end of the decay, YaRN's attention factor.
// Of the batch numbers, one alone is enough: micro_batch_size is then 1, or micro_batches is 1 when only
// micro_batch_size is given. Returns the faults of validate() and of the world size instead when there are any.
// Warnings are about what may be meant, but more often is a slip: they name key, value and the usual value.
struct ResolveResult {
  Recipe recipe;
  std::vector<Fault> faults;
  std::vector<std::string> warnings{};
};
ResolveResult resolve(const LoadedRecipe& loaded, int64_t world_size);

// Smallest world the recipe can run on: data_parallel "fill" counts as 1. INT64_MAX when the product overflows.
int64_t smallest_world(const Recipe& recipe);

// Ids of data.tokenizer: 257 for bytes (256 bytes and the end of a document).
int64_t tokenizer_vocab(const TokenizerConfig& tokenizer);

}  // namespace trainctl
