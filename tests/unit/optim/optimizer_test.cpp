// tests/unit/optim/optimizer_test.cpp -- schedules, clipping, decay groups, and that bf16 training moves what f32
// moves.
#include "optim/optimizer.h"

#include <cmath>

#include "support/catch.h"
#include "support/tiny.h"

namespace trainctl::testing {
namespace {

OptimizerConfig scheduled(const std::string& kind, int64_t warmup, int64_t decay, double floor) {
  OptimizerConfig c;
  c.lr = 2.0;
  c.schedule = {.kind = kind, .warmup_steps = warmup, .decay_steps = decay, .min_lr_ratio = floor};
  return c;
}

}  // namespace

TEST_CASE("every schedule warms up linearly, stays within its bounds, and ends where it says", "[optim]") {
  for (const char* kind : {"constant", "linear", "cosine", "wsd"}) {
    INFO(kind);
    const OptimizerConfig c = scheduled(kind, 10, kind == std::string("wsd") ? 20 : 0, 0.1);
    for (int64_t step = 1; step <= 10; ++step)
      CHECK(learning_rate(c, step, 100) == Approx(2.0 * static_cast<double>(step) / 10));
    double last = 2.0;
    for (int64_t step = 11; step <= 100; ++step) {
      const double lr = learning_rate(c, step, 100);
      CHECK(lr <= last);
      CHECK(lr >= 0.2 - 1e-12);
      last = lr;
    }
    CHECK(last == Approx(kind == std::string("constant") ? 2.0 : 0.2));
  }
  // By hand: half way down a cosine without a floor is half of the peak; wsd holds until its last stretch.
  CHECK(learning_rate(scheduled("cosine", 0, 0, 0), 50, 100) == Approx(1.0));
  CHECK(learning_rate(scheduled("wsd", 0, 20, 0), 80, 100) == 2.0);
  CHECK(learning_rate(scheduled("wsd", 0, 20, 0), 90, 100) == Approx(1.0));
  CHECK(learning_rate(scheduled("linear", 0, 50, 0.5), 75, 100) == Approx(1.0));
}

TEST_CASE("clipping scales the norm to its limit and never up", "[optim]") {
  CHECK(clip_factor(10, 2) == Approx(0.2));
  CHECK(clip_factor(1, 2) == 1.0);
  CHECK(clip_factor(10, 0) == 1.0);
}

TEST_CASE("with a zero gradient only matrices shrink, on one rank and on two", "[optim][decay]") {
  for (const Layout& layout : {Layout{1, 1, 1, false}, Layout{2, 1, 1, true}}) {
    Recipe recipe = tiny_recipe("gpt2");
    recipe.optimizer.weight_decay = 0.1;
    const Recipe resolved = with_layout(recipe, layout);
    const Trace before = trace(resolved, {.steps = 0, .initial = {}, .before_steps = {}});
    const Trace after = trace(resolved, {.steps = 0, .initial = {}, .before_steps = [](Engine& e) {
                                           e.context->zero(e.model.grads);
                                           e.optimizer->step({.step = 1, .lr = 0.5});
                                         }});
    for (const auto& [name, values] : before.weights) {
      INFO(layout.text() << " " << name);
      const bool matrix = name.ends_with("weight") && name.find("norm") == std::string::npos;
      if (matrix)
        CHECK(norm_of(after.weights.at(name)) == Approx(norm_of(values) * (1 - 0.5 * 0.1)).epsilon(1e-5));
      else
        CHECK(after.weights.at(name) == values);
    }
  }
}

TEST_CASE("decay groups count every logical parameter once", "[optim][decay]") {
  Recipe recipe = tiny_recipe("llama");
  recipe.model.tie_embeddings = true;
  const Recipe resolved = with_layout(recipe, {});
  const Model model = build_model(resolved.model);
  const auto groups = decay_groups(model, resolved.optimizer);
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].elements + groups[1].elements == parameter_count(model));
  CHECK(groups[1].elements == (2 * 4 + 1) * 48);  // two norms per layer, one at the end
  CHECK(groups[0].weight_decay == 0.1);
  CHECK(groups[1].weight_decay == 0.0);
}

TEST_CASE("in bf16 the norm weights at 1.0 move as in f32, thanks to the f32 master", "[optim][bf16]") {
  Recipe recipe = tiny_recipe("llama");
  recipe.optimizer.lr = 1e-4;
  recipe.optimizer.clip_grad_norm = 0;
  const TraceOptions options{.steps = 40, .initial = {}, .before_steps = {}};
  const Trace f32 = trace(with_layout(recipe, {}), options);
  recipe.runtime.precision = "bf16";
  const Trace bf16 = trace(with_layout(recipe, {}), options);
  for (const auto& [name, values] : f32.weights) {
    if (name.find("norm") == std::string::npos) continue;
    std::vector<float> moved32 = values, moved16 = bf16.weights.at(name);
    for (float& x : moved32) x -= 1.0f;
    for (float& x : moved16) x -= 1.0f;
    INFO(name);
    CHECK(norm_of(moved32) > 0.005);  // 48 elements that move by up to 40 x 1e-4 each; without a master: 0
    CHECK(relative_error(moved16, moved32) < 0.2);
  }
  CHECK(bf16.losses.back() == Approx(f32.losses.back()).epsilon(0.01));
}

}  // namespace trainctl::testing
