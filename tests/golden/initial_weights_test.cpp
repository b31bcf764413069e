// tests/golden/initial_weights_test.cpp -- a run that starts from imported weights has the loss that transformers gave.
#include "trainer/initial_weights.h"

#include <cmath>
#include <limits>

#include "../unit/interop/interop_support.h"
#include "base/error.h"
#include "checkpoint/retention.h"
#include "hf_fixture.h"
#include "interop/hf_import.h"
#include "parallel/apply_parallelism.h"
#include "support/catch.h"

namespace trainctl::testing {
namespace {

namespace fs = std::filesystem;

std::string refusal(const fs::path& path, const ModelConfig& model, bool allow_intermediate = false) {
  try {
    choose_initial_weights(path, allow_intermediate, model);
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::checkpoint);
    return e.what();
  }
  return "";
}

void says(const std::string& message, const std::string& part) {
  INFO(message);
  CHECK(message.find(part) != std::string::npos);
}

ModelConfig resolved_model(const std::string& name) { return with_layout(load_fixture(name).recipe, {}).model; }

}  // namespace

TEST_CASE("the first step from imported weights has transformers' loss and gradients, in one rank and in four",
          "[golden]") {
  for (const std::string& name : kGoldenCases) {
    const Fixture f = load_fixture(name);
    ScratchFolder scratch;
    put_golden_folder(scratch.path(), name, scratch.path() / "hf");
    import_hf(scratch.path() / "hf", scratch.path() / "portable");
    for (const Layout& layout : {Layout{1, 1, 1, false}, Layout{2, 2, 1, false}}) {
      INFO(name << ", " << layout.text());
      const Recipe recipe = with_layout(f.recipe, layout);
      const InitFrom from = choose_initial_weights(scratch.path() / "portable", false, recipe.model);
      CHECK(from.kind == "portable");
      FixtureSource source(f);
      const Trace got =
          trace(recipe, {.steps = 1,
                         .initial = {},
                         .before_steps = [&](Engine& e) { load_initial_weights(from, e.model, *e.device); },
                         .source = &source});
      CHECK(got.losses.at(0) == Approx(f.loss).epsilon(1e-5));
      for (const auto& [parameter, values] : f.gradients) {
        INFO(parameter);
        if (norm_of(values) > 1e-6) CHECK(relative_error(got.gradients.at(parameter), values) < 1e-4);
      }
    }
  }
}

TEST_CASE("with bf16 the master is the stored f32, or the stored bf16 widened, and the moments are zero", "[golden]") {
  const Fixture f = load_fixture("llama");
  Recipe bf16_recipe = f.recipe;
  bf16_recipe.runtime.precision = "bf16";
  const Recipe recipe = with_layout(bf16_recipe, {});
  ScratchFolder scratch;
  const Golden g = golden("llama");
  SaveOptions narrow;
  narrow.dtype = DType::bf16;
  const fs::path with_master = save_weights(scratch.path() / "bf16", g, narrow);  // bf16 weights and their f32 master
  put_golden_folder(scratch.path(), "llama", scratch.path() / "hf");
  RawTensors tensors = raw_tensors(scratch.path() / "hf/model.safetensors");
  for (auto& [name, raw] : tensors) raw = as_bf16(raw);
  put_hf_folder(scratch.path() / "hf16", read_json(scratch.path() / "hf/config.json"), tensors);
  import_hf(scratch.path() / "hf16", scratch.path() / "weights_alone");
  for (const fs::path& path : {with_master, scratch.path() / "weights_alone"}) {
    INFO(path.filename());
    const bool rounded = path != with_master;
    const InitFrom from = choose_initial_weights(path, false, recipe.model);
    FixtureSource source(f);
    size_t compared = 0;
    trace(recipe, {.steps = 0,
                   .initial = {},
                   .before_steps =
                       [&](Engine& e) {
                         load_initial_weights(from, e.model, *e.device);
                         for (const StateEntry& entry : e.catalog()) {
                           INFO(entry.name << " (" << entry.role << ")");
                           const std::vector<float>& stored = g.weights.at(entry.name).data;
                           size_t differ = 0;
                           for (size_t i = 0; i < stored.size(); ++i) {
                             float expected = rounded || entry.role == "weight" ? float(bf16(stored[i])) : stored[i];
                             if (entry.role.starts_with("exp_avg")) expected = 0;
                             const float is = entry.role == "weight"
                                                  ? float(static_cast<const bf16*>(entry.local.data())[i])
                                                  : static_cast<const float*>(entry.local.data())[i];
                             differ += is != expected;
                           }
                           CHECK(differ == 0);
                           ++compared;
                         }
                       },
                   .source = &source});
    CHECK(compared == 4 * g.weights.size());  // weight, master, two moments
  }
}

TEST_CASE("weights of another model, and states nobody should use, are no start", "[golden]") {
  ScratchFolder scratch;
  const ModelConfig llama = resolved_model("llama");
  const fs::path good = save_weights(scratch.path() / "run/checkpoints", golden("llama"));
  CHECK(choose_initial_weights(scratch.path() / "run", false, llama).folder == good.string());
  CHECK(choose_initial_weights(good, false, llama).step == 7);

  const std::string other = refusal(good, resolved_model("qwen3"));
  says(other, "\"layers.0.attention.q_norm.weight\": is not in the checkpoint");
  says(other, "\"layers.0.attention.q.weight\": has the shape [32, 32] there, [64, 32] here");
  says(other, "\"layers.2.ffn.up.weight\": is in the checkpoint and not in the model");

  says(refusal(scratch.path() / "nowhere", llama), "there is nothing");
  put_golden_folder(scratch.path(), "llama", scratch.path() / "hf");
  says(refusal(scratch.path() / "hf", llama), "checkpoint import --from hf");
  fs::create_directories(scratch.path() / "empty");
  says(refusal(scratch.path() / "empty", llama), "no usable checkpoint");

  SaveOptions exploded;
  exploded.loss = std::numeric_limits<double>::infinity();
  const fs::path intermediate = save_weights(scratch.path() / "lost/checkpoints", golden("llama"), exploded);
  says(refusal(intermediate, llama), "--allow-intermediate");
  CHECK(refusal(intermediate, llama, true) == "");
  says(refusal(scratch.path() / "lost", llama), "its kind is intermediate");

  const InitFrom before = choose_initial_weights(good, false, llama);
  mark_unusable(good, "loss spike", "test", "");
  says(refusal(good, llama), "loss spike");
  says(refusal(good, llama, true), "loss spike");
  says(refusal(scratch.path() / "run", llama), "loss spike");

  fs::remove_all(good);
  Golden changed = golden("llama");
  changed.weights["final_norm.weight"].data[0] += 1;
  save_weights(scratch.path() / "run/checkpoints", changed);
  const Fixture f = load_fixture("llama");
  FixtureSource source(f);
  CHECK_THROWS_AS(trace(with_layout(f.recipe, {}),
                        {.steps = 0,
                         .initial = {},
                         .before_steps = [&](Engine& e) { load_initial_weights(before, e.model, *e.device); },
                         .source = &source}),
                  Error);
}

}  // namespace trainctl::testing
