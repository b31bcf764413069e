// tests/unit/recipe/resolve_test.cpp -- after resolve nothing is left to a default.
#include <nlohmann/json.hpp>

#include "recipe_test_support.h"

using namespace trainctl;

TEST_CASE("resolve makes every derived number explicit", "[recipe][resolve]") {
  const Recipe r = resolved(8, {"model.kv_heads=null"});
  CHECK(r.model.kv_heads == 8);
  CHECK(r.model.head_dim == 8);
  CHECK(r.model.d_ff == 128);
  CHECK(r.model.vocab.value == 257);  // 256 bytes and the end of a document
  CHECK(r.model.max_positions == 32);
  CHECK(r.model.activation == "swiglu");
  CHECK_FALSE(r.model.tie_embeddings);
  CHECK(r.parallelism.data_parallel.value == 2);
  CHECK(r.parallelism.pipeline_layers == std::vector<int64_t>{4, 4});
  CHECK(r.runtime.micro_batches == 4);
  CHECK(r.optimizer.schedule.decay_steps == 200);
}

TEST_CASE("gpt2 has its own defaults", "[recipe][resolve]") {
  const Recipe r = resolved(2, {}, kGoodGpt2);
  CHECK(r.model.d_ff == 256);
  CHECK(r.model.activation == "gelu_tanh");
  CHECK(r.model.tie_embeddings);
  CHECK(r.parallelism.pipeline_layers == std::vector<int64_t>{4});
  CHECK(r.runtime.micro_batch_size == 1);
  CHECK(r.runtime.micro_batches == 8);
  CHECK_FALSE(resolved(2, {"model.tie_embeddings=false"}, kGoodGpt2).model.tie_embeddings);
}

TEST_CASE("what was given by hand is kept", "[recipe][resolve]") {
  const Recipe r = resolved(4, {"parallelism.pipeline_layers=[7,1]", "model.vocab=1000", "model.max_positions=64",
                                "optimizer.schedule.decay_steps=150"});
  CHECK(r.parallelism.pipeline_layers == std::vector<int64_t>{7, 1});
  CHECK(r.model.vocab.value == 1000);
  CHECK(r.model.max_positions == 64);
  CHECK(r.optimizer.schedule.decay_steps == 150);
  const Recipe yarn =
      resolved(4, {"model.rope.scaling=yarn", "model.rope.factor=4", "model.rope.original_positions=8192"});
  REQUIRE(yarn.model.rope.attention_factor.has_value());
  CHECK(*yarn.model.rope.attention_factor == Approx(1.1386294361));
}

TEST_CASE("resolve leaves what was loaded as it is", "[recipe][resolve]") {
  const LoadedRecipe loaded = load_good();
  const nlohmann::ordered_json before = recipe_to_json(loaded.recipe);
  CHECK(resolve(loaded, 8).faults.empty());
  CHECK(recipe_to_json(loaded.recipe) == before);
}

TEST_CASE("a large vocabulary takes layers off the last stage", "[recipe][resolve]") {
  const Recipe r = resolved(4, {"model.vocab=32000", "model.layers=64", "parallelism.pipeline_parallel=2"});
  CHECK(r.parallelism.pipeline_layers[0] + r.parallelism.pipeline_layers[1] == 64);
  CHECK(r.parallelism.pipeline_layers[0] > r.parallelism.pipeline_layers[1] + 10);
}

TEST_CASE("a vocabulary below the tokenizer's ids is warned of, and one that holds them is not", "[recipe][resolve]") {
  for (const int64_t vocab : {1, 256, 257, 258, 50257}) {
    INFO(vocab);
    const ResolveResult r = resolve(load_good({"model.vocab=" + std::to_string(vocab), "parallelism.tensor_parallel=1",
                                               "parallelism.sequence_parallel=false"}),
                                    8);
    REQUIRE(r.faults.empty());
    REQUIRE(r.warnings.size() == (vocab < 257 ? 1 : 0));
    if (vocab < 257) {
      CHECK_THAT(r.warnings.front(), Catch::Contains("model.vocab " + std::to_string(vocab) + " is less than the 257"));
      CHECK_THAT(r.warnings.front(), Catch::Contains("\"bytes\""));
    }
  }
}
