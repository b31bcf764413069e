// tests/unit/planner/compare_test.cpp -- plan and run side by side: equal only when every number is.
#include "planner/compare.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "plan_recipe.h"
#include "planner/plan.h"
#include "support/catch.h"

namespace trainctl::testing {
namespace {

using Catch::Contains;

RunCounters counters() {
  return make_plan(plan_recipe({"parallelism.tensor_parallel=2", "parallelism.pipeline_parallel=2"}), {}).counters;
}

}  // namespace

TEST_CASE("counters are equal to themselves, through their JSON too", "[planner]") {
  const RunCounters plan = counters();
  CHECK(all_equal(compare(plan, plan)));
  CHECK(all_equal(compare(plan, run_counters_from_json(nlohmann::json::parse(to_json(plan).dump())))));
  CHECK(ranks_of(plan) == 4);
}

TEST_CASE("one byte, one message or one FLOP of difference shows, and alone", "[planner]") {
  const RunCounters plan = counters();
  const auto differing = [&](const RunCounters& run) {
    std::vector<ComparedQuantity> rows;
    for (const ComparedQuantity& row : compare(plan, run))
      if (row.difference() != 0) rows.push_back(row);
    return rows;
  };
  RunCounters run = plan;
  run.memory[0].at_peak[2] += 1;
  REQUIRE(differing(run).size() == 1);
  CHECK_THAT(differing(run)[0].what, Contains("optimizer_bytes"));
  CHECK(differing(run)[0].difference() == 1);
  run = plan;
  run.traffic[0].messages -= 1;
  REQUIRE(differing(run).size() == 1);
  CHECK(differing(run)[0].difference() == -1);
  run = plan;
  run.hardware_flops += 1;
  CHECK(differing(run).size() == 1);
  run = plan;
  const TrafficRow gone = run.traffic.back();
  run.traffic.pop_back();
  CHECK(differing(run).size() == 2);
  CHECK(differing(run)[1].difference() == -gone.bytes);
}

TEST_CASE("ranks that the two sides group differently are still compared one by one", "[planner]") {
  RunCounters plan;
  plan.memory = {{.ranks = {0, 1, 2, 3}, .at_peak = {8, 0, 0, 0, 0, 0}, .peak_bytes = 8}};
  RunCounters run;
  run.memory = {{.ranks = {0, 2, 3}, .at_peak = {8, 0, 0, 0, 0, 0}, .peak_bytes = 8},
                {.ranks = {1}, .at_peak = {9, 0, 0, 0, 0, 0}, .peak_bytes = 9}};
  int64_t differences = 0;
  for (const ComparedQuantity& row : compare(plan, run))
    if (row.difference() != 0) {
      ++differences;
      CHECK_THAT(row.what, Contains("ranks 1:"));
    }
  CHECK(differences == 2);
  run.memory.pop_back();
  CHECK_THROWS_WITH(compare(plan, run), Contains("4 ranks") && Contains("--ranks 3"));
}

}  // namespace trainctl::testing
