// tests/unit/recipe/parallelism_rules_test.cpp -- rules of the layout, with and without a world size.
#include "recipe_test_support.h"

using namespace trainctl;

TEST_CASE("a tensor degree beyond heads, channels or tokens is refused with the largest legal one",
          "[recipe][layout]") {
  CHECK(faults_of({"parallelism.tensor_parallel=8"}) == "");
  check_one_fault(faults_of({"parallelism.tensor_parallel=9"}),
                  {"9 is more than model.heads 8", "the nearest legal value is 8"});
  check_one_fault(faults_of({"parallelism.tensor_parallel=8", "model.d_ff=6"}), {"8 is more than model.d_ff 6"});
  check_one_fault(faults_of({"parallelism.tensor_parallel=8", "model.vocab=5"}), {"8 is more than model.vocab 5"});
  CHECK(faults_of({"parallelism.tensor_parallel=4", "model.vocab=5"}) == "");  // a rank may hold padding only
}

TEST_CASE("sequence parallelism without tensor parallelism is refused with both ways out", "[recipe][layout]") {
  check_one_fault(faults_of({"parallelism.tensor_parallel=1", "parallelism.sequence_parallel=true"}),
                  {"has no effect with tensor_parallel 1", "set it to false, or tensor_parallel to 2"});
}

TEST_CASE("hand-written stage splits must have one entry >= 1 per stage and sum to the layers", "[recipe][layout]") {
  const auto split = [](const std::string& s) {
    return faults_of({"model.layers=7", "parallelism.pipeline_layers=" + s});
  };
  CHECK(split("[3,4]") == "");
  CHECK(split("[6,1]") == "");
  CHECK(split("[]") == "");
  check_one_fault(split("[7,0]"), {"pipeline_layers[1]: 0 must be", "the nearest legal value is 1"});
  check_one_fault(split("[3,3]"), {"the sum 3 + 3 = 6 is not model.layers 7", "a legal split is [4, 3]"});
  check_one_fault(split("[-1,8]"), {"pipeline_layers[0]: -1 must be"});
  check_one_fault(split("[3,3,1]"), {"3 entries for 2 stages"});
  check_one_fault(split("[2,2,2]"), {"3 entries for 2 stages", "the sum 2 + 2 + 2 = 6 is not model.layers 7"});
  check_one_fault(faults_of({"model.layers=1"}), {"parallelism.pipeline_parallel: 2 is more than model.layers 1"});
  check_one_fault(faults_of({"parallelism.pipeline_layers=[4]", "parallelism.pipeline_parallel=2"}),
                  {"1 entry for 2 stages", "the sum 4 = 4 is not model.layers 8"});
}

TEST_CASE("the order must be a permutation of the five axes, and the nearest one is named", "[recipe][layout]") {
  CHECK(faults_of({"parallelism.order=pp-dp-ep-cp-tp"}) == "");
  check_one_fault(faults_of({"parallelism.order=tp-cp-ep-dp-dp"}),
                  {"dp comes twice, pp is missing", "the nearest legal order is \"tp-cp-ep-dp-pp\""});
  check_one_fault(faults_of({"parallelism.order=pp-tp"}),
                  {"cp is missing, ep is missing, dp is missing", "\"pp-tp-cp-ep-dp\""});
  check_one_fault(faults_of({"parallelism.order=tp-cp-ep-dp-pp-xx"}), {"\"xx\" is no axis"});
  check_one_fault(faults_of({"parallelism.order="}), {"is no axis"});
}

TEST_CASE("what this build does not have is refused by name", "[recipe][layout]") {
  check_one_fault(faults_of({"parallelism.zero_stage=1"}), {"optimizer states", "ZeRO", "not in this build"});
  check_one_fault(faults_of({"parallelism.context_parallel=2"}), {"context parallelism is not in this build"});
  check_one_fault(faults_of({"parallelism.expert_parallel=2"}), {"expert parallelism is not in this build"});
  check_one_fault(faults_of({"parallelism.pipeline_schedule=interleaved"}), {"\"interleaved\" is not in this build"});
  check_one_fault(faults_of({"runtime.device=rocm"}), {"\"rocm\" is not in this build; it has \"cpu\", \"cuda\""});
  check_one_fault(faults_of({"runtime.precision=fp8"}), {"\"fp8\" is not in this build; it has \"f32\", \"bf16\""});
  check_one_fault(faults_of({"runtime.precision=f31"}), {"did you mean \"f32\"?"});
}

TEST_CASE("\"fill\" derives data_parallel from the world", "[recipe][layout]") {
  CHECK(resolved(4).parallelism.data_parallel.value == 1);
  CHECK(resolved(8).parallelism.data_parallel.value == 2);
  CHECK(resolved(32).parallelism.data_parallel.value == 8);
  CHECK(smallest_world(load_good().recipe) == 4);
  CHECK(smallest_world(load_good({"parallelism.data_parallel=4"}).recipe) == 16);
}

TEST_CASE("a world that is not the product of the degrees prints all of them and near legal layouts",
          "[recipe][layout]") {
  check_one_fault(world_faults(4, {"parallelism.data_parallel=2"}),
                  {"tensor_parallel 2 x context_parallel 1 x pipeline_parallel 2 x data_parallel 2 = 8 ranks, but the "
                   "world has 4",
                   "expert_parallel 1 divides the data ranks",
                   "layouts of 4 ranks: tensor_parallel 2 pipeline_parallel 2 data_parallel 1", "or start 8 ranks"});
  check_one_fault(
      world_faults(4, {"parallelism.tensor_parallel=3", "parallelism.pipeline_parallel=1"}),
      {"tensor_parallel 3 x context_parallel 1 x pipeline_parallel 1 = 3 does not divide the world of 4 ranks",
       "4 / 3 = 1.333", "tensor_parallel 4 pipeline_parallel 1 data_parallel 1", "or start 3 or 6 ranks"});
  check_one_fault(world_faults(0, {}), {"a world of 0 ranks", "at least 4"});
}

TEST_CASE("every suggested layout is legal", "[recipe][layout]") {
  for (int64_t world = 1; world <= 12; ++world)
    for (const char* tensor : {"1", "2", "3", "5", "8"}) {
      const Overrides base = {std::string("parallelism.tensor_parallel=") + tensor};
      const std::string faults = world_faults(world, base);
      const std::string label = "ranks: tensor_parallel ";
      const size_t at = faults.find(label);
      if (at == std::string::npos) continue;
      long long tp = 0, pp = 0, dp = 0;
      REQUIRE(std::sscanf(faults.c_str() + at, "ranks: tensor_parallel %lld pipeline_parallel %lld data_parallel %lld",
                          &tp, &pp, &dp) == 3);
      INFO(faults);
      CHECK(tp * pp * dp == world);
      CHECK(world_faults(world, {"parallelism.tensor_parallel=" + std::to_string(tp),
                                 "parallelism.pipeline_parallel=" + std::to_string(pp),
                                 "parallelism.data_parallel=" + std::to_string(dp)}) == "");
    }
}

TEST_CASE("huge degrees are refused, not overflowed", "[recipe][layout]") {
  const Overrides huge = {"parallelism.tensor_parallel=65536",
                          "model.heads=65536",
                          "model.d_model=131072",
                          "model.kv_heads=65536",
                          "model.d_ff=1000000",
                          "model.vocab=1000000",
                          "model.layers=100000",
                          "parallelism.pipeline_parallel=100000",
                          "parallelism.data_parallel=1048576",
                          "runtime.micro_batch_size=1",
                          "runtime.global_batch_size=1048576"};
  CHECK(smallest_world(load_good(huge).recipe) == 65536ll * 100000 * 1048576);
  CHECK_THAT(world_faults(16384, huge), Catch::Contains("but the world has 16384"));
  CHECK_THAT(faults_of({"parallelism.tensor_parallel=1000000000000000000"}),
             Catch::Contains("the nearest legal value"));
}
