// tests/golden/hugging_face_test.cpp -- logits, loss and every gradient equal those that Hugging Face transformers gave
// in f32 (tests/golden/hf, made by scripts/make_fixtures.py), on one rank and on several.
#include <cmath>

#include "hf_fixture.h"
#include "runtime/batches.h"
#include "support/catch.h"

namespace trainctl::testing {
namespace {

// Logits of the whole fixture batch on one rank.
std::vector<float> logits_of(Engine& engine, const Fixture& f) {
  Context& ctx = *engine.context;
  FixtureSource source(f);
  Batches batches(ctx, {.micro_batches = 1, .micro_batch_size = f.batch, .sequence = f.sequence});
  batches.load(&source, SampleSplit::train, 0);
  Tape tape(ctx, /*recording=*/false);
  ForwardPass pass{.tape = tape, .batch = batches.micro_batch(0), .loss_sum = {}};
  Tensor x;
  for (size_t m = 0; m + 1 < engine.model.modules.size(); ++m) x = engine.model.modules[m]->forward(pass, x);
  const Tensor scores = engine.model.modules.back()->logits(pass, x);
  const auto* data = static_cast<const float*>(scores.data());
  return {data, data + scores.numel()};
}

void check_fixture(const std::string& name) {
  const Fixture f = load_fixture(name);
  double total = 0;
  for (const auto& [parameter, values] : f.gradients) total += norm_of(values) * norm_of(values);
  total = std::sqrt(total);
  for (const Layout& layout :
       {Layout{1, 1, 1, false}, Layout{2, 1, 1, true}, Layout{3, 2, 1, false}, Layout{1, 2, 2, false}}) {
    INFO(name << ", " << layout.text());
    FixtureSource source(f);
    std::vector<float> logits;
    const Trace got = trace(with_layout(f.recipe, layout), {.steps = 1,
                                                            .initial = f.weights,
                                                            .before_steps =
                                                                [&](Engine& engine) {
                                                                  if (engine.world->size() == 1)
                                                                    logits = logits_of(engine, f);
                                                                },
                                                            .source = &source});
    if (layout.world() == 1) CHECK(relative_error(logits, f.logits) < 1e-5);
    CHECK(got.losses.at(0) == Approx(f.loss).epsilon(1e-6));
    REQUIRE(got.gradients.size() == f.gradients.size());
    for (const auto& [parameter, values] : f.gradients) {
      const double error = relative_error(got.gradients.at(parameter), values) * norm_of(values);
      INFO(parameter << ": error " << error << ", norm " << norm_of(values));
      // A key bias has no effect on a softmax: its gradient is rounding alone, in both.
      CHECK(error <= 2e-5 * norm_of(values) + 2e-7 * total);
    }
  }
}

}  // namespace

TEST_CASE("gpt2 equals Hugging Face in logits, loss and gradients", "[golden]") {
  check_fixture("gpt2");
  check_fixture("gpt2_gelu_exact");
}
TEST_CASE("llama equals Hugging Face, tied and untied, with any head size", "[golden]") {
  check_fixture("llama");
  check_fixture("llama_tied");
}
TEST_CASE("linear, Llama-3 and YaRN rotary scaling equal Hugging Face", "[golden]") {
  check_fixture("llama_rope_linear");
  check_fixture("llama_rope_llama3");
  check_fixture("llama_rope_yarn");
}
TEST_CASE("qwen2 and qwen3 equal Hugging Face", "[golden]") {
  check_fixture("qwen2");
  check_fixture("qwen3");
}

}  // namespace trainctl::testing
