// tests/property/step_laws_test.cpp -- laws of a step that no layout changes: equal bits on repetition, overlap without
// effect, evaluation without effect, decay only where it belongs, initial values without a layout.
#include <fmt/format.h>

#include <atomic>
#include <cmath>

#include "support/catch.h"
#include "support/tiny.h"

namespace trainctl::testing {

TEST_CASE("the same layout twice gives the same bits", "[property][bits]") {
  for (const Layout& layout : {Layout{1, 1, 1, false}, Layout{2, 2, 2, true}, Layout{3, 1, 2, false}}) {
    const Recipe recipe = with_layout(tiny_recipe("llama"), layout);
    const TraceOptions options{.steps = 3, .initial = {}, .before_steps = {}};
    const Trace a = trace(recipe, options), b = trace(recipe, options);
    CHECK(a.losses == b.losses);
    CHECK(a.norms == b.norms);
    CHECK(a.weights == b.weights);
  }
}

TEST_CASE("overlapping the gradient reduction with the backward pass changes no bit", "[property][bits]") {
  for (const Layout& layout : {Layout{1, 1, 4, false}, Layout{2, 1, 2, true}, Layout{1, 2, 3, false}}) {
    Recipe recipe = with_layout(tiny_recipe("gpt2"), layout);
    const TraceOptions options{.steps = 3, .initial = {}, .before_steps = {}};
    const Trace overlapped = trace(recipe, options);
    recipe.parallelism.overlap_grad_reduce = false;
    const Trace serial = trace(recipe, options);
    CHECK(overlapped.losses == serial.losses);
    CHECK(overlapped.weights == serial.weights);
  }
}

TEST_CASE("recomputation changes no bit, with dropout too", "[property][bits]") {
  Recipe recipe = tiny_recipe("gpt2");
  recipe.model.dropout = 0.2;
  for (const Layout& layout : {Layout{1, 1, 1, false}, Layout{2, 2, 1, true}}) {
    const TraceOptions options{.steps = 2, .initial = {}, .before_steps = {}};
    recipe.runtime.recompute = "none";
    const Trace kept = trace(with_layout(recipe, layout), options);
    recipe.runtime.recompute = "full";
    const Trace again = trace(with_layout(recipe, layout), options);
    CHECK(kept.gradients == again.gradients);
    CHECK(kept.weights == again.weights);
  }
}

TEST_CASE("initial weights are the same bits in every layout", "[property][bits]") {
  const Recipe recipe = tiny_recipe("llama");
  const TraceOptions none{.steps = 0, .initial = {}, .before_steps = {}};
  const Trace one = trace(with_layout(recipe, {}), none);
  for (const auto& [name, values] : one.weights) {
    if (name.find("norm") != std::string::npos) continue;
    const bool residual = name.find(".o.") != std::string::npos || name.find(".down.") != std::string::npos;
    const double expected = recipe.model.init_std / (residual ? std::sqrt(8.0) : 1.0);
    INFO(name);
    const auto n = static_cast<double>(values.size());  // four standard deviations of a sample's spread
    CHECK(norm_of(values) / std::sqrt(n) == Approx(expected).epsilon(4 / std::sqrt(2 * n)));
  }
  for (const Layout& layout : {Layout{2, 1, 1, true}, Layout{3, 2, 1, false}, Layout{1, 4, 2, false}})
    CHECK(trace(with_layout(recipe, layout), none).weights == one.weights);
}

TEST_CASE("an evaluation between steps changes nothing of training", "[property][bits]") {
  Recipe recipe = tiny_recipe("gpt2");
  recipe.model.dropout = 0.1;
  const Recipe resolved = with_layout(recipe, {2, 2, 1, false});
  const Trace plain = trace(resolved, {.steps = 3, .initial = {}, .before_steps = {}});
  const Trace evaluated =
      trace(resolved, {.steps = 3, .initial = {}, .before_steps = [](Engine& e) { e.runtime->evaluate(); }});
  CHECK(plain.losses == evaluated.losses);
  CHECK(plain.weights == evaluated.weights);
}

TEST_CASE("with no token to learn from, no weight moves and nothing is NaN", "[property]") {
  // A vocabulary of labels that are never counted: scale 0, loss 0.
  class NothingCounts final : public BatchSource {
   public:
    void fill(SampleSplit, int64_t, int64_t count, const SampleBuffers& out) override {
      for (int64_t i = 0; i < count * 13; ++i) {
        out.tokens[i] = static_cast<int32_t>(i % 101);
        out.labels[i] = -1;
        out.positions[i] = static_cast<int32_t>(i % 13);
      }
    }
  };
  const Recipe recipe = with_layout(tiny_recipe("llama"), {2, 1, 1, false});
  std::atomic<int> ranks{0};  // Catch's macros belong to one thread: the ranks throw instead
  run_ranks(2, 4096, [&](int, std::unique_ptr<Collectives> collectives) {
    NothingCounts source;
    auto engine = assemble(recipe, {.device = make_cpu_device(),
                                    .kernels = kernels::cpu_kernels(),
                                    .collectives = std::move(collectives),
                                    .source = &source,
                                    .on_place = {}});
    initialise_weights(engine->model, 1);
    const auto* weights = static_cast<const float*>(engine->model.master.data());
    const std::vector<float> before(weights, weights + engine->model.master.numel());
    const StepReport report = engine->runtime->step(1);
    ensure(report.skipped && report.loss == 0 && report.grad_norm == 0, "a step without counted tokens is skipped");
    ensure(std::vector<float>(weights, weights + engine->model.master.numel()) == before, "no weight moved");
    ++ranks;
    engine->world->finalize();
  });
  CHECK(ranks == 2);
}

TEST_CASE("a non-finite weight stops the step and is named with its rank", "[property][numeric]") {
  const Recipe recipe = with_layout(tiny_recipe("llama"), {1, 2, 1, false});
  std::string message;
  try {
    trace(recipe, {.steps = 1,
                   .initial = {{"layers.3.ffn.down.weight", std::vector<float>(48 * 52, INFINITY)}},
                   .before_steps = {}});
  } catch (const Error& error) {
    // The rank that found it says so by rank and place, the others in words.
    message = fmt::format("rank {}, in {}: {}", error.rank(), error.where(), error.what());
  }
  CHECK_THAT(message, Catch::Contains("layers.3.ffn.down.weight") && Catch::Contains("rank 1"));
}

TEST_CASE("after the first step a step asks the system for no memory", "[property][memory]") {
  for (const Layout& layout : {Layout{1, 1, 1, false}, Layout{2, 2, 1, true}}) {
    const Recipe recipe = with_layout(tiny_recipe("llama"), layout);
    std::atomic<int64_t> more{0};
    run_ranks(static_cast<int>(layout.world()), 4096, [&](int, std::unique_ptr<Collectives> collectives) {
      SyntheticSource source(101, 13, false);
      auto engine = assemble(recipe, {.device = make_cpu_device(),
                                      .kernels = kernels::cpu_kernels(),
                                      .collectives = std::move(collectives),
                                      .source = &source,
                                      .on_place = {}});
      initialise_weights(engine->model, 1);
      engine->runtime->step(1);
      const int64_t after_first = engine->arena->counters().system_allocations;
      for (int64_t step = 2; step <= 4; ++step) engine->runtime->step(step);
      more += engine->arena->counters().system_allocations - after_first;
      engine->world->finalize();
    });
    CHECK(more == 0);
  }
}

}  // namespace trainctl::testing
