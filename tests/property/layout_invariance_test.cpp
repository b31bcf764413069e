// tests/property/layout_invariance_test.cpp -- the number contract: every legal layout of 1 to 8 ranks gives what one
// rank gives.
#include <cmath>

#include "support/catch.h"
#include "support/tiny.h"

namespace trainctl::testing {
namespace {

// Gradients that are mathematically zero (a key bias) hold only rounding; they count against the whole gradient.
void check_close(const Tensors& got, const Tensors& expected, double tolerance, const std::string& what) {
  double total = 0;
  for (const auto& [name, values] : expected) total += norm_of(values) * norm_of(values);
  total = std::sqrt(total);
  REQUIRE(got.size() == expected.size());
  for (const auto& [name, values] : expected) {
    const std::vector<float>& mine = got.at(name);
    const double error = relative_error(mine, values), size = norm_of(values);
    INFO(what << " of " << name << ": relative error " << error << ", norm " << size);
    CHECK(error * size <= tolerance * size + 1e-7 * total);
  }
}

void check_layouts(const Recipe& recipe, bool documents, int64_t most_ranks) {
  const TraceOptions options{.steps = 5, .documents = documents, .evaluate = true, .initial = {}, .before_steps = {}};
  const Trace one = trace(with_layout(recipe, {}), options);
  REQUIRE(one.losses.size() == 5);
  CHECK(one.losses.back() < one.losses.front());
  for (const Layout& layout : legal_layouts(recipe, most_ranks)) {
    INFO(recipe.name << ", layout " << layout.text());
    const Trace got = trace(with_layout(recipe, layout), options);
    for (size_t i = 0; i < one.losses.size(); ++i) {
      CHECK(got.losses[i] == Approx(one.losses[i]).epsilon(1e-5));
      CHECK(got.norms[i] == Approx(one.norms[i]).epsilon(1e-5));
    }
    CHECK(got.eval_loss == Approx(one.eval_loss).epsilon(1e-5));
    check_close(got.gradients, one.gradients, 1e-5, "gradient");
    check_close(got.weights, one.weights, 1e-5, "weight after 5 steps");
  }
}

Recipe with(Recipe recipe, const std::function<void(Recipe&)>& change, const std::string& suffix) {
  change(recipe);
  recipe.name += suffix;
  return recipe;
}

}  // namespace

TEST_CASE("gpt2 gives one rank's losses, norms, gradients and weights in every layout", "[property][layout]") {
  check_layouts(tiny_recipe("gpt2"), false, 8);
}

TEST_CASE("llama gives one rank's losses, norms, gradients and weights in every layout", "[property][layout]") {
  check_layouts(tiny_recipe("llama"), true, 8);
}

TEST_CASE("SGD, which hides no constant factor, agrees in every layout", "[property][layout]") {
  for (const char* family : {"gpt2", "llama"})
    check_layouts(with(
                      tiny_recipe(family),
                      [](Recipe& r) {
                        r.optimizer.kind = "sgd";
                        r.optimizer.momentum = 0.9;
                        r.optimizer.lr = 0.5;
                      },
                      "_sgd"),
                  false, 8);
}

TEST_CASE("tied embeddings, biases, q/k-norm and dropout agree in every layout of up to 4 ranks",
          "[property][layout]") {
  check_layouts(with(
                    tiny_recipe("llama"), [](Recipe& r) { r.model.tie_embeddings = true; }, "_tied"),
                false, 4);
  check_layouts(tiny_recipe("qwen2"), true, 4);
  check_layouts(with(
                    tiny_recipe("qwen3"), [](Recipe& r) { r.model.head_dim = 10; }, "_head_dim"),
                false, 4);
  check_layouts(with(
                    tiny_recipe("gpt2"), [](Recipe& r) { r.model.dropout = 0.2; }, "_dropout"),
                false, 4);
  check_layouts(with(
                    tiny_recipe("llama"), [](Recipe& r) { r.runtime.recompute = "full"; }, "_recompute"),
                false, 4);
}

TEST_CASE("gpipe, hand-written splits and fewer micro-batches than stages agree with one rank", "[property][layout]") {
  const auto few = [](Recipe& r) {
    r.runtime.global_batch_size = 4;
    r.runtime.micro_batch_size = 2;
  };
  check_layouts(with(tiny_recipe("llama"), few, "_two_micro_batches"), false, 4);
  check_layouts(with(
                    tiny_recipe("gpt2"),
                    [](Recipe& r) {
                      r.parallelism.pipeline_schedule = "gpipe";
                      r.runtime.log_layer_norms = true;
                    },
                    "_gpipe"),
                false, 4);

  const TraceOptions options{.steps = 3, .initial = {}, .before_steps = {}};
  Recipe by_hand = tiny_recipe("llama");
  const Trace one = trace(with_layout(by_hand, {}), options);
  for (const std::vector<int64_t>& split : {std::vector<int64_t>{3, 1}, std::vector<int64_t>{1, 3}}) {
    by_hand.parallelism.pipeline_layers = split;
    const Trace got = trace(with_layout(by_hand, {1, 2, 1, false}), options);
    for (size_t i = 0; i < one.losses.size(); ++i) CHECK(got.losses[i] == Approx(one.losses[i]).epsilon(1e-5));
    check_close(got.gradients, one.gradients, 1e-5, "gradient");
  }
}

TEST_CASE("layer norms are the same in every layout, and their squares add up to the norm's", "[property][layout]") {
  Recipe recipe = tiny_recipe("llama");
  recipe.model.tie_embeddings = true;
  recipe.runtime.log_layer_norms = true;
  std::vector<double> expected;
  for (const Layout& layout : legal_layouts(recipe, 4)) {
    INFO(layout.text());
    std::vector<double> norms;
    double total = 0;
    trace(with_layout(recipe, layout), {.steps = 0, .initial = {}, .before_steps = [&](Engine& engine) {
                                          const StepReport report = engine.runtime->gradients(1);
                                          if (engine.world->rank() != 0) return;
                                          norms = report.layer_norms;
                                          total = report.grad_norm;
                                        }});
    REQUIRE(norms.size() == 6);
    double squares = 0;
    for (const double x : norms) squares += x * x;
    CHECK(std::sqrt(squares) == Approx(total).epsilon(1e-9));
    if (layout.world() == 1) expected = norms;
    for (size_t i = 0; i < norms.size(); ++i) CHECK(norms[i] == Approx(expected.at(i)).epsilon(1e-5));
  }
}

TEST_CASE("a vocabulary smaller than the tensor group's needs and few tokens per rank are handled",
          "[property][layout]") {
  check_layouts(with(
                    tiny_recipe("llama"),
                    [](Recipe& r) {
                      r.model.vocab.value = 5;
                      r.data.sequence_tokens = 3;
                    },
                    "_small"),
                false, 4);
}

}  // namespace trainctl::testing
