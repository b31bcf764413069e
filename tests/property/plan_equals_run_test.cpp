// tests/property/plan_equals_run_test.cpp -- the plan is the run: bytes, messages and FLOPs that the shape-only engine
// predicts equal what a run counts, to the byte, the message and the FLOP.
#include "support/catch.h"
#include "support/tiny.h"
#include "trainer/shape_run.h"

namespace trainctl::testing {
namespace {

void check_equal(const RunCounters& plan, const RunCounters& run) {
  CHECK(plan.model_flops == run.model_flops);
  CHECK(plan.hardware_flops == run.hardware_flops);
  REQUIRE(plan.memory.size() == run.memory.size());
  for (size_t i = 0; i < plan.memory.size(); ++i) {
    CHECK(plan.memory[i].ranks == run.memory[i].ranks);
    for (int c = 0; c < kMemoryCategories; ++c) {
      INFO("category " << name(static_cast<MemoryCategory>(c)) << " of rank " << run.memory[i].ranks.front());
      CHECK(plan.memory[i].at_peak[static_cast<size_t>(c)] == run.memory[i].at_peak[static_cast<size_t>(c)]);
    }
    CHECK(plan.memory[i].peak_bytes == run.memory[i].peak_bytes);
  }
  REQUIRE(plan.traffic.size() == run.traffic.size());
  for (size_t i = 0; i < plan.traffic.size(); ++i) {
    INFO(plan.traffic[i].axis << " " << plan.traffic[i].operation);
    CHECK(plan.traffic[i] == run.traffic[i]);
  }
}

}  // namespace

TEST_CASE("bytes, messages and FLOPs of the plan equal the run's in every layout", "[property][plan]") {
  for (const char* family : {"gpt2", "llama"})
    for (const char* precision : {"f32", "bf16"}) {
      Recipe recipe = tiny_recipe(family);
      recipe.runtime.precision = precision;
      if (recipe.runtime.precision == "bf16") recipe.runtime.recompute = "full";
      const int64_t most = recipe.runtime.precision == "bf16" ? 4 : 8;
      for (const Layout& layout : legal_layouts(recipe, most)) {
        INFO(family << " " << precision << " " << layout.text());
        const Recipe resolved = with_layout(recipe, layout);
        const Trace run = trace(resolved, {.steps = 2, .initial = {}, .before_steps = {}});
        const RunCounters counted = combine(run.counters, shape_run(resolved, 0).counters.model_flops, 0);
        check_equal(shape_run(resolved, 0).counters, counted);
      }
    }
}

}  // namespace trainctl::testing
