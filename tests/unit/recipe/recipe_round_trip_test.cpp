// tests/unit/recipe/recipe_round_trip_test.cpp -- writing and reading back changes nothing; the schema fits the reader.
#include <nlohmann/json.hpp>
#include <random>

#include "recipe_test_support.h"

using namespace trainctl;

namespace {

const std::vector<std::string> kVariations = {"model.family=qwen2",
                                              "model.tie_embeddings=true",
                                              "model.head_dim=32",
                                              "model.vocab=1000",
                                              "model.dropout=0.1",
                                              "model.rope.theta=500000",
                                              "model.norm_eps=1e-6",
                                              "model.param_dtype=bf16",
                                              "data.train[1].path=b",
                                              "data.document_mask=true",
                                              "data.reset_positions=true",
                                              "parallelism.sequence_parallel=true",
                                              "parallelism.pipeline_schedule=gpipe",
                                              "parallelism.pipeline_layers=[5,3]",
                                              "parallelism.order=pp-dp-ep-cp-tp",
                                              "parallelism.message_chunk_bytes=1000",
                                              "optimizer.kind=sgd",
                                              "optimizer.clip_grad_norm=0.05",
                                              "optimizer.schedule.kind=constant",
                                              "runtime.precision=bf16",
                                              "runtime.recompute=full",
                                              "runtime.eval_every_steps=7",
                                              "checkpoint.every_steps=50"};

// The schema's node of "a.b[0].c", or null.
const nlohmann::ordered_json* schema_at(const nlohmann::ordered_json& schema, const std::vector<std::string>& path) {
  const nlohmann::ordered_json* node = &schema;
  for (const std::string& key : path) {
    if (node->contains("items")) node = &node->at("items");
    if (!node->contains("properties") || !node->at("properties").contains(key)) return nullptr;
    node = &node->at("properties").at(key);
  }
  return node;
}

// Every key of `value` has a schema with a description.
void check_described(const nlohmann::ordered_json& schema, const nlohmann::ordered_json& value,
                     std::vector<std::string> path) {
  if (value.is_array() && !value.empty() && value.front().is_object()) return check_described(schema, value[0], path);
  if (!value.is_object()) return;
  for (const auto& [key, child] : value.items()) {
    path.push_back(key);
    const nlohmann::ordered_json* node = schema_at(schema, path);
    INFO(key);
    REQUIRE(node != nullptr);
    CHECK(node->contains("description"));
    check_described(schema, child, path);
    path.pop_back();
  }
}

}  // namespace

TEST_CASE("a resolved recipe written and read back is the same, and resolves to itself", "[recipe][round_trip]") {
  std::mt19937 random(5);
  for (int round = 0; round < 60; ++round) {
    Overrides overrides;
    for (const std::string& v : kVariations)
      if (random() % 3 == 0) overrides.push_back(v);
    const Recipe first = resolved(8, overrides);
    const nlohmann::ordered_json written = recipe_to_json(first);
    const Recipe second = recipe_from_json(written);
    CHECK(recipe_to_json(second) == written);
    // As a file it can be launched again.
    CHECK(recipe_to_json(resolved(8, {}, written.dump(2))) == written);
  }
  const nlohmann::ordered_json gpt2 = recipe_to_json(resolved(2, {}, kGoodGpt2));
  CHECK_FALSE(gpt2["model"].contains("rope"));
  CHECK(recipe_to_json(recipe_from_json(gpt2)) == gpt2);
}

TEST_CASE("a damaged resolved recipe is refused", "[recipe][round_trip]") {
  nlohmann::json written = recipe_to_json(resolved(4));
  written["model"]["kv_heads"] = 3;
  CHECK_THROWS_WITH(recipe_from_json(written), Catch::Contains("model.kv_heads"));
}

TEST_CASE("the schema describes every key of a recipe and refuses unknown ones", "[recipe][schema]") {
  const nlohmann::ordered_json schema = recipe_schema();
  CHECK(schema["$schema"] == "https://json-schema.org/draft/2020-12/schema");
  check_described(schema, recipe_to_json(resolved(4)), {});
  CHECK(schema["required"].dump() == R"(["name","model","data","optimizer","runtime"])");
  CHECK(schema_at(schema, {"model"})->at("additionalProperties") == false);
  CHECK(schema_at(schema, {"model", "rope"})->at("additionalProperties") == false);
  CHECK(schema_at(schema, {"runtime", "device"})->at("enum").dump() == R"(["cpu","cuda"])");
  CHECK(schema_at(schema, {"data", "train", "weight"})->at("exclusiveMinimum") == 0);
  CHECK(schema_at(schema, {"parallelism", "data_parallel"})->at("anyOf")[1]["const"] == "fill");
  CHECK(schema_at(schema, {"optimizer", "betas"})->at("default").dump() == "[0.9,0.95]");
}
