// tests/unit/planner/plan_numbers_test.cpp -- the plan's numbers against ones worked out by hand.
#include "plan_recipe.h"
#include "planner/plan.h"
#include "support/catch.h"

namespace trainctl::testing {
namespace {

constexpr size_t kWeights = 0, kActivations = 3;

// Activation bytes per stage; one tensor and one data rank, so that rank = stage.
std::vector<int64_t> activations(const Plan& plan) {
  std::vector<int64_t> bytes(static_cast<size_t>(plan.world_size));
  for (const MemoryClass& c : plan.counters.memory)
    for (const int rank : c.ranks) bytes[static_cast<size_t>(rank)] = c.at_peak[kActivations];
  return bytes;
}

Plan four_stages(const std::string& micro_batches, const std::string& vocab) {
  return make_plan(
      plan_recipe({"parallelism.pipeline_parallel=4", "parallelism.pipeline_layers=[2,2,2,2]", "runtime.recompute=full",
                   "runtime.micro_batches=" + micro_batches, "model.vocab=" + vocab}),
      {});
}

}  // namespace

TEST_CASE("each of four stages holds its own number of micro-batches, and the last the logits of a chunk",
          "[planner]") {
  const Plan plan = four_stages("8", "32000");
  REQUIRE(plan.stages.size() == 4);
  for (size_t s = 0; s < 4; ++s) CHECK(plan.stages[s].in_flight == 4 - static_cast<int64_t>(s));
  const std::vector<int64_t> bytes = activations(plan);
  for (size_t a = 0; a < 4; ++a)
    for (size_t b = a + 1; b < 4; ++b) CHECK(bytes[a] != bytes[b]);
  // With full recomputation a micro-batch in flight is the inputs of the stage's 2 blocks: 2 x [64 tokens, 64] f32.
  CHECK(bytes[1] - bytes[2] == 2 * 64 * 64 * 4);
  // The last stage is fullest at the loss: logits of all 64 rows, f32, and half as many with half the vocabulary.
  const int64_t logits = 1 * 64 * 32000 * 4;
  CHECK(bytes[3] > logits);
  CHECK(bytes[3] < logits + 1'000'000);
  CHECK(bytes[3] - activations(four_stages("8", "16000"))[3] == logits / 2);
  // Stage 0 and 1 do not know the vocabulary's size but in the embedding.
  CHECK(bytes[1] == activations(four_stages("8", "16000"))[1]);
}

TEST_CASE("fewer micro-batches than stages are all that a stage can hold", "[planner]") {
  const Plan plan = four_stages("2", "32000");
  const std::vector<int64_t> expected{2, 2, 2, 1};
  for (size_t s = 0; s < 4; ++s) CHECK(plan.stages[s].in_flight == expected[s]);
  const std::vector<int64_t> bytes = activations(plan);
  CHECK(bytes[1] == bytes[2]);
  CHECK(bytes[0] < activations(four_stages("8", "32000"))[0]);
}

TEST_CASE("the bubble is (p - 1) / (m + p - 1) for equal stages", "[planner]") {
  CHECK(four_stages("8", "257").bubble_fraction == Approx(3.0 / 11));
  CHECK(four_stages("2", "257").bubble_fraction == Approx(3.0 / 5));
  CHECK(make_plan(plan_recipe(), {}).bubble_fraction == 0);
}

TEST_CASE("model FLOPs equal a hand count, short and long", "[planner]") {
  const auto flops = [](const std::string& tokens) {
    return make_plan(plan_recipe({"model.layers=2", "data.sequence_tokens=" + tokens, "runtime.micro_batches=1",
                                  "runtime.recompute=full"}),
                     {})
        .counters;
  };
  // Weights per token: 2 x (4 x 64^2 + 3 x 64 x 128) + 64 x 257 = 98 368, 2 FLOPs each.
  // Attention: 4 x 64 per causal pair and layer; 32 x 33 / 2 = 528 and 4096 x 4097 / 2 = 8 390 656 pairs.
  // Backward twice the forward.
  CHECK(flops("32").model_flops == 3 * (2 * 98368 * 32 + 2 * 4 * 64 * 528));
  CHECK(flops("32").model_flops == 19'697'664);
  CHECK(flops("4096").model_flops == 15'305'539'584);
  // The blocks' forward runs twice with recomputation: what the hardware does is more than the model's need.
  CHECK(flops("32").hardware_flops > flops("32").model_flops);
}

TEST_CASE("weights, parameters and decay groups follow from the shapes", "[planner]") {
  const Plan plan = make_plan(plan_recipe(), {});
  // Per block 4 x 64 x 64 + 3 x 64 x 128 and two norms of 64; embedding and head 257 x 64; the final norm.
  const int64_t matrices = 8 * (4 * 64 * 64 + 3 * 64 * 128) + 2 * 257 * 64, norms = 17 * 64;
  CHECK(plan.parameters == matrices + norms);
  CHECK(plan.stages.front().parameters == plan.parameters);
  REQUIRE(plan.decay.size() == 2);
  CHECK(plan.decay[0].weight_decay == 0.1);
  CHECK(plan.decay[0].elements == matrices);
  CHECK(plan.decay[0].tensors == 8 * 7 + 2);
  CHECK(plan.decay[1].elements == norms);
  CHECK(plan.decay[1].tensors == 17);
  REQUIRE(plan.counters.memory.size() == 1);
  // f32 weights, shards padded to no more than some cache lines per tensor.
  CHECK(plan.counters.memory[0].at_peak[kWeights] >= 4 * plan.parameters);
  CHECK(plan.counters.memory[0].at_peak[kWeights] < 4 * plan.parameters + 64 * 1024);
}

}  // namespace trainctl::testing
