// tests/unit/recipe/model_rules_test.cpp -- rules of the architecture.
#include "recipe_test_support.h"

using namespace trainctl;

TEST_CASE("kv_heads must divide heads, and the nearest divisors are named", "[recipe][model]") {
  for (int64_t kv = 1; kv <= 16; ++kv) {
    const std::string faults = faults_of({"model.kv_heads=" + std::to_string(kv)});
    if (8 % kv == 0)
      CHECK(faults == "");
    else
      check_one_fault(faults, {"model.kv_heads: " + std::to_string(kv) + " does not divide heads 8"});
  }
  check_one_fault(faults_of({"model.kv_heads=3"}), {"the nearest legal kv_heads: 2 or 4"});
  check_one_fault(faults_of({"model.kv_heads=16"}), {"the nearest legal kv_heads: 8"});
}

TEST_CASE("heads must divide d_model unless head_dim is given", "[recipe][model]") {
  check_one_fault(faults_of({"model.heads=12"}), {"d_model 64 / heads 12 is not whole", "set heads to 8 or 16",
                                                  "d_model to 60 or 72", "or give head_dim"});
  CHECK(faults_of({"model.heads=12", "model.head_dim=6"}) == "");
  CHECK(resolved(4, {"model.head_dim=10"}).model.head_dim == 10);
}

TEST_CASE("rotary families need an even head_dim", "[recipe][model]") {
  check_one_fault(faults_of({"model.head_dim=5"}), {"model.head_dim: 5 is odd", "4 or 6"});
  check_one_fault(faults_of({"model.d_model=8"}), {"d_model / heads = 1 is odd", "head_dim: 2"});
  CHECK(faults_of({"model.d_model=12"}, kGoodGpt2) == "");  // 3 channels per head: gpt2 rotates nothing
}

TEST_CASE("every family has its own options and refuses the others'", "[recipe][model]") {
  check_one_fault(faults_of({"model.rope.theta=500000"}, kGoodGpt2),
                  {"model.rope", "\"rope\" does not apply here", "gpt2 has learned positions"});
  check_one_fault(faults_of({"model.rope={}"}, kGoodGpt2), {"does not apply here"});
  check_one_fault(faults_of({"model.activation=swiglu"}, kGoodGpt2), {"\"swiglu\" does not go with family \"gpt2\""});
  check_one_fault(faults_of({"model.activation=gelu"}),
                  {"\"gelu\" does not go with family \"llama\"", "\"swiglu\" only"});
  check_one_fault(faults_of({"model.kv_heads=2"}, kGoodGpt2), {"2 is not heads 4"});
  check_one_fault(faults_of({"model.head_dim=8"}, kGoodGpt2), {"8 is not d_model 64 / heads 4"});
  check_one_fault(faults_of({"model.d_ff=null"}), {"required key \"d_ff\" is missing", "about 192"});
  check_one_fault(faults_of({"model.max_positions=31"}, kGoodGpt2),
                  {"31 is less than data.sequence_tokens 32", "set it to 32 or more"});
  CHECK(faults_of({"model.max_positions=32"}, kGoodGpt2) == "");
  check_one_fault(faults_of({"model.family=mixtral"}), {"\"mixtral\" is not in this build"});
  for (const char* family : {"qwen2", "qwen3"}) CHECK(faults_of({std::string("model.family=") + family}) == "");
}

TEST_CASE("rope options without effect, or too few of them, are faults", "[recipe][model]") {
  check_one_fault(faults_of({"model.rope.factor=2"}), {"model.rope.factor: has no effect with scaling \"none\""});
  check_one_fault(faults_of({"model.rope.scaling=llama3", "model.rope.factor=8"}),
                  {"model.rope.original_positions: scaling \"llama3\" needs the context length before scaling"});
  check_one_fault(faults_of({"model.rope.scaling=linear", "model.rope.factor=2", "model.rope.beta_fast=3"}),
                  {"beta_fast: has no effect", "set scaling to \"yarn\""});
  check_one_fault(faults_of({"model.rope.scaling=llama3", "model.rope.factor=8", "model.rope.original_positions=8192",
                             "model.rope.low_freq_factor=4"}),
                  {"4 must be less than high_freq_factor 4"});
  check_one_fault(
      faults_of({"model.rope.scaling=yarn", "model.rope.original_positions=8192", "model.rope.beta_slow=32"}),
      {"32 must be less than beta_fast 32"});
  CHECK(faults_of({"model.rope.scaling=yarn", "model.rope.factor=4", "model.rope.original_positions=8192"}) == "");
}
