// tests/property/continued_runs_test.cpp -- what a run may do while its state is written, and what it may change when
// it continues.
#include <fmt/format.h>

#include <cmath>

#include "checkpoint/checkpoint_reader.h"
#include "support/catch.h"
#include "support/tiny_run.h"
#include "unit/checkpoint/fixture.h"

namespace trainctl::testing {
namespace {

// The logical tensors of a checkpoint.
WholeState stored_state(const std::filesystem::path& checkpoint) {
  CheckpointReader reader(checkpoint);
  WholeState state;
  for (const TensorRecord& t : reader.manifest().tensors) {
    std::string& bytes = state[{t.name, t.role}];
    bytes.resize(static_cast<size_t>(t.shape.numel() * size_of(t.dtype)));
    reader.read(t, trainctl::whole(t.shape), t.dtype, bytes.data());
  }
  return state;
}

}  // namespace

TEST_CASE("with dropout a run goes on over one, two, four and one data ranks as if it had never changed",
          "[property][resume]") {
  Recipe recipe = tiny_recipe("gpt2");
  recipe.model.dropout = 0.2;
  recipe.runtime.global_batch_size = 8;
  recipe.runtime.steps = 12;
  ScratchFolder folder;
  const auto on = [&recipe](int64_t data_ranks) { return with_layout(recipe, {1, 1, data_ranks, false}); };
  const RunRecord straight = run_tiny(on(1), {.folder = folder.path() / "straight", .last_step = 12});
  Recipe dry = recipe;
  dry.model.dropout = 0;
  CHECK(std::abs(run_tiny(with_layout(dry, {}), {.folder = folder.path() / "dry", .last_step = 2}).losses.at(2) -
                 straight.losses.at(2)) > 1e-3);  // the masks matter
  std::map<int64_t, double> losses, norms;
  std::filesystem::path from;
  int64_t step = 0;
  for (const int64_t data_ranks : {1, 2, 4, 1}) {
    step += 3;
    const RunRecord part = run_tiny(on(data_ranks), {.folder = folder.path() / "parts",
                                                     .resume = from.string(),
                                                     .last_step = step,
                                                     .look_after = {},
                                                     .save_after = {step}});
    losses.insert(part.losses.begin(), part.losses.end());
    norms.insert(part.norms.begin(), part.norms.end());
    from = part.saved(step);
  }
  REQUIRE(losses.size() == straight.losses.size());
  for (const auto& [at, loss] : straight.losses) {
    INFO("step " << at);
    CHECK(losses.at(at) == Approx(loss).epsilon(1e-5));
    CHECK(norms.at(at) == Approx(straight.norms.at(at)).epsilon(1e-5));
  }
}

// Copying it takes several times a step of the tiny model, so that a step that did not wait would be seen.
constexpr int64_t kBallast = 24 << 20;

TEST_CASE("the state that is saved is the one of its step, although training goes on at once", "[property][stale]") {
  for (const char* copy : {"lazy", "blocking"})
    for (const bool slow : {false, true})
      for (const char* precision : {"f32", "bf16"}) {
        INFO(copy << " " << precision << (slow ? ", slow writer" : ""));
        Recipe recipe = tiny_recipe("llama");
        recipe.data.sequence_tokens = 2;
        recipe.runtime.global_batch_size = 2;
        recipe.runtime.precision = precision;
        recipe.runtime.steps = 12;
        recipe.checkpoint.copy = copy;
        recipe.checkpoint.keep = 100;
        if (slow) recipe.checkpoint.write_limit_bytes_per_s = 100'000'000;  // it still writes when the run ends
        recipe = with_layout(recipe, {2, 1, 1, false});
        ScratchFolder folder;
        const RunRecord run = run_tiny(recipe, {.folder = folder.path(),

                                                .last_step = 12,
                                                .look_after = {2, 3, 12},
                                                .save_after = {2},
                                                .reason = SaveReason::interval,
                                                .ballast_bytes = kBallast});
        WholeState stored = stored_state(run.saved(2));
        stored.erase({"ballast", "buffer"});
        CHECK(stored == run.states.at(2));
        CHECK_FALSE(stored == run.states.at(3));
      }
}

}  // namespace trainctl::testing
