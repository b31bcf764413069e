// tests/unit/planner/plan_output_test.cpp -- what a plan says: fields and their types, tables that fit, verdicts.
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/error.h"
#include "plan_recipe.h"
#include "planner/plan.h"
#include "support/catch.h"

namespace trainctl::testing {
namespace {

using Catch::Contains;

TopologyConfig topology(int64_t memory_bytes, int64_t cores = 8, const std::string& kind = "cpu") {
  TopologyConfig t;
  t.name = "boxes";
  NodeType type;
  type.name = "box";
  type.cores = cores;
  type.memory_bytes = memory_bytes;
  type.devices.kind = kind;
  type.devices.count = cores;
  if (kind == "cuda") type.devices.memory_bytes = memory_bytes;
  t.node_types = {type};
  t.nodes = {{.names = "n[1-2]", .type = "box", .switch_name = ""}};
  return t;
}

const std::vector<std::string> kTwoByTwo{"parallelism.tensor_parallel=2", "parallelism.pipeline_parallel=2",
                                         "parallelism.sequence_parallel=true"};

std::set<std::string> keys(const nlohmann::ordered_json& object) {
  std::set<std::string> names;
  for (const auto& item : object.items()) names.insert(item.key());
  return names;
}

bool has(const nlohmann::ordered_json& object, const std::vector<std::string>& wanted) {
  const std::set<std::string> present = keys(object);
  for (const std::string& key : wanted)
    if (!present.contains(key)) return false;
  return true;
}

}  // namespace

TEST_CASE("a plan in JSON has every section with its fields and types", "[planner]") {
  const TopologyConfig boxes = topology(int64_t{1} << 30);
  const nlohmann::ordered_json json = to_json(make_plan(plan_recipe(kTwoByTwo), {.topology = &boxes, .ranks = 8}));
  CHECK(json["layout"]["tensor_parallel"] == 2);
  CHECK(json["layout"]["data_parallel"] == 2);
  CHECK(json["layout"]["world_size"] == 8);
  REQUIRE(json["ranks"].size() == 8);
  for (const auto& r : json["ranks"]) {
    CHECK(r["rank"].is_number_integer());
    CHECK(r["host"] == "n1");
    CHECK(r["device"].is_number_integer());
    CHECK(has(r["coordinates"], {"tensor", "context", "expert", "data", "pipeline"}));
  }
  std::set<std::string> axes;
  for (const auto& g : json["groups"]) {
    axes.insert(g["axis"].get<std::string>());
    CHECK(g["ranks"].size() >= 2);
  }
  CHECK(axes == std::set<std::string>{"world", "tensor", "data", "pipeline"});
  REQUIRE(json["stages"].size() == 2);
  for (const auto& s : json["stages"])
    CHECK((s["stage"].is_number_integer() && s["layers"] == 4 && s["parameters"].is_number_integer()));
  std::set<int> covered;
  for (const auto& m : json["memory"]) {
    int64_t sum = 0;
    for (const char* key : {"weights_bytes", "gradients_bytes", "optimizer_bytes", "activations_bytes",
                            "communication_bytes", "other_bytes"}) {
      REQUIRE(m[key].is_number_integer());
      sum += m[key].get<int64_t>();
    }
    CHECK(m["peak_bytes"] == sum);
    CHECK(m["limit_bytes"] == (int64_t{1} << 30) / 8);
    CHECK(m["fits"] == true);
    for (const int rank : m["ranks"].get<std::vector<int>>()) CHECK(covered.insert(rank).second);
  }
  CHECK(covered.size() == 8);
  CHECK(json["traffic"].size() >= 3);
  for (const auto& t : json["traffic"])
    CHECK((t["axis"].is_string() && t["operation"].is_string() && t["messages"] > 0 && t["bytes"] > 0));
  CHECK(json["flops"]["model_per_step"].is_number_integer());
  CHECK(json["flops"]["hardware_per_step"].is_number_integer());
  CHECK_THAT(json["flops"]["formula"].get<std::string>(), Contains("FLOPS.md"));
  CHECK(json["verdict"]["fits"] == true);
  CHECK(json["batch"]["global_batch_size"] == 16);
}

TEST_CASE("without a topology nothing is placed and no limit is known", "[planner]") {
  const Plan plan = make_plan(plan_recipe(kTwoByTwo), {});
  CHECK(plan.world_size == 4);
  CHECK_FALSE(plan.refused());
  const nlohmann::ordered_json json = to_json(plan);
  CHECK(json["topology"].is_null());
  CHECK(json["ranks"][0]["host"].is_null());
  CHECK(json["ranks"][0]["device"].is_null());
  CHECK(json["memory"][0]["limit_bytes"].is_null());
  CHECK(json["verdict"]["fits"].is_null());
}

TEST_CASE("tables fit 100 columns and state what changes results", "[planner]") {
  const TopologyConfig boxes = topology(int64_t{1} << 40, 64);
  std::vector<std::string> overrides = kTwoByTwo;
  overrides.insert(overrides.end(), {"data.document_mask=true", "model.vocab=128256", "model.tie_embeddings=true"});
  for (const bool placed : {true, false}) {
    const std::string text =
        to_text(make_plan(plan_recipe(overrides), {.topology = placed ? &boxes : nullptr, .ranks = 128}));
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      INFO(line);
      CHECK(line.size() <= 100);
    }
    CHECK_THAT(text, Contains("document_mask on, reset_positions off") && Contains("weight decay 0.1: "));
    CHECK_THAT(text, Contains("data.document_mask = true (--set") && Contains("embedding") && Contains("0-127"));
    CHECK_THAT(text, Contains("global_batch_size 256 = micro_batch_size 1 x micro_batches 8 x data_parallel 32"));
  }
}

TEST_CASE("too little memory does not fit, and the verdict says by how much and what to try", "[planner]") {
  const TopologyConfig small = topology(1 << 20);
  const Plan plan = make_plan(plan_recipe(kTwoByTwo), {.topology = &small});
  CHECK(plan.refused());
  REQUIRE(plan.verdict.reasons.size() == 1);
  CHECK_THAT(plan.verdict.reasons[0], Contains("256 KiB") && Contains("recompute=full"));
  CHECK(to_json(plan)["memory"][0]["fits"] == false);
}

TEST_CASE("what the topology refuses is a verdict, after a full plan", "[planner]") {
  const TopologyConfig boxes = topology(int64_t{1} << 30, 2), devices = topology(int64_t{1} << 34, 8, "cuda");
  const Plan crowded = make_plan(plan_recipe(kTwoByTwo), {.topology = &boxes, .ranks = 8});
  CHECK(crowded.refused());
  CHECK_THAT(crowded.verdict.reasons[0], Contains("8") && Contains("4"));
  CHECK_FALSE(crowded.counters.memory.empty());
  const Plan shared = make_plan(plan_recipe(kTwoByTwo), {.topology = &boxes, .ranks = 8, .oversubscribe = true});
  CHECK_FALSE(shared.refused());
  CHECK(shared.counters.memory[0].limit_bytes == (int64_t{1} << 30) / 4);  // four ranks share a node
  CHECK(make_plan(plan_recipe(), {.topology = &devices}).refused());
}

TEST_CASE("a device has its own memory, and checkpoints are staged in its host's", "[planner]") {
  const TopologyConfig devices = topology(int64_t{1} << 34, 8, "cuda");
  const Plan device = make_plan(plan_recipe({"runtime.device=cuda"}), {.topology = &devices});
  const Plan cpu = make_plan(plan_recipe(), {});
  CHECK_FALSE(device.refused());
  CHECK(device.counters.memory[0].limit_bytes == int64_t{1} << 34);
  CHECK(cpu.host_staging_bytes == 0);
  CHECK(device.host_staging_bytes >= 12 * device.parameters);  // f32 weights and two moments
  // Steady memory that a cpu rank holds and a device does not: the staged image.
  CHECK(cpu.counters.memory[0].peak_bytes - device.counters.memory[0].peak_bytes == device.host_staging_bytes);
}

TEST_CASE("a world that is not the product of the degrees is refused with every degree", "[planner]") {
  std::vector<std::string> overrides = kTwoByTwo;
  overrides.emplace_back("parallelism.data_parallel=2");
  CHECK_THROWS_WITH(make_plan(plan_recipe(overrides), {.ranks = 4}),
                    Contains("tensor_parallel 2") && Contains("pipeline_parallel 2") && Contains("data_parallel 2") &&
                        Contains("8") && Contains("4"));
  CHECK_THROWS_WITH(make_plan(plan_recipe({"parallelism.tensor_parallel=3"}), {.ranks = 4}),
                    Contains("tensor_parallel 3") && Contains("4"));
  CHECK(
      make_plan(plan_recipe({"parallelism.tensor_parallel=4"}), {.ranks = 4}).recipe.parallelism.data_parallel.value ==
      1);
}

}  // namespace trainctl::testing
