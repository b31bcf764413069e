// tests/unit/accept/checkpoint_drill_test.cpp -- every check of the drill fails when what it checks is wrong, and no
// checkpoint is marked then.
#include "accept/checkpoint_drill.h"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/scan.h"
#include "support/catch.h"
#include "support/subprocess.h"
#include "unit/checkpoint/fixture.h"

namespace trainctl::testing {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;

constexpr const char* kRecipe = R"({
  "name": "fixture",
  "model": { "family": "llama", "layers": 2, "d_model": 64, "heads": 4, "kv_heads": 2, "d_ff": 128, "vocab": "tokenizer" },
  "data": { "train": [ { "path": "nowhere" } ], "sequence_tokens": 32 },
  "parallelism": { "tensor_parallel": 2, "data_parallel": "fill" },
  "optimizer": { "lr": 1e-3 },
  "runtime": { "steps": 100, "micro_batch_size": 1, "global_batch_size": 4 }
})";

struct Drilled {
  explicit Drilled(const std::string& deed) {
    ::setenv("FAKE_DEED", deed.c_str(), 1);
    DrillRequest request;
    request.trainctl = program("trainctl_fake_launch");
    request.recipe = scratch.path() / "recipe.json";
    put_bytes(request.recipe, kRecipe);
    request.ranks = 2;
    request.steps = 6;
    request.folder = folder();
    request.progress = [this](std::string_view line) { progress += std::string(line) + "\n"; };
    try {
      report = drill_checkpoints(request);
    } catch (const Error& e) {
      error = e.what();
      kind = e.kind();
    }
  }
  fs::path folder() const { return scratch.path() / "drill"; }
  int64_t marked() const {  // checkpoints with DRILLED
    int64_t count = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder())) count += entry.path().filename() == "DRILLED";
    return count;
  }

  ScratchFolder scratch;
  DrillReport report;
  std::string error, progress;
  ErrorKind kind = ErrorKind::internal;
};

}  // namespace

TEST_CASE("a drill in which nothing goes wrong passes all its checks and marks the checkpoint in the middle",
          "[accept]") {
  for (const char* deed : {"", "small_gap"}) {
    const Drilled d(deed);
    INFO(d.error << d.progress);
    REQUIRE(d.error.empty());
    CHECK(d.report.passed());
    CHECK(d.report.checks.size() == 10);
    for (const DrillCheck& c : d.report.checks) CHECK(c.advice.empty());
    const fs::path middle = d.folder() / "whole/checkpoints/step-00000003";
    CHECK(d.report.drilled == middle);
    const CheckpointInfo info = inspect_folder(middle);
    CHECK(info.drilled);
    CHECK_THAT(info.drilled_how, Contains(*deed ? "gap of 3.0e-06" : "gap of 0.0e+00"));
    CHECK(d.marked() == 1);
  }
}

TEST_CASE("each check of the drill fails when what it checks is wrong, with numbers and advice, and marks nothing",
          "[accept]") {
  struct Case {
    const char *deed, *check, *found, *advice;
  };
  for (const Case& c : std::vector<Case>{
           {"one_checkpoint", "every step and two usable", "6 steps, 1 usable checkpoint", "checkpoint list"},
           {"lost_line", "every step and two usable", "5 steps, 2 usable checkpoints", "whole.log"},
           {"too_quick", "ends its run with an error", "at its end before the signal", "more --steps than 6"},
           {"nothing_usable", "a usable checkpoint is left", "none", "checkpoint list --closely"},
           {"does_not_start_again", "started again, ends well", "exit code 9: the fake was told to fail", "killed.log"},
           {"starts_anew", "went on from the state that was left", "step 1", "which checkpoints were not used"},
           {"loses_moments", "losses and norms of the killed run", "step 3: loss ", "is not in the checkpoint"},
           {"another_seed", "losses and norms of the killed run", "step 2: loss ", "metrics.jsonl"},
           {"forgets_a_step", "losses and norms of the killed run", "step 6 is missing", "metrics.jsonl"},
           {"ends_elsewhere", "final state", "1 tensor differs, first w (exp_avg)", "trainctl checkpoint diff"},
           {"unusable_end", "final state", "cannot be used", "trainctl checkpoint diff"},
           {"damaged_middle", "another layout continues", "exit code 5: ", "trainctl checkpoint verify --full"},
           {"refuses_the_layout", "another layout continues", "exit code 3: plan: no such layout", "other.log"},
           {"gap", "agree with the uninterrupted run", "gap 3.0e-05 at step", "rounding that the recipe amplifies"},
           {"other_ends_early", "agree with the uninterrupted run", "2 steps", "metrics.jsonl"},
           {"other_begins_anew", "agree with the uninterrupted run", "6 steps", "metrics.jsonl"},
           {"gone_before_marking", "still usable", "manifest", "something else writes"},
       }) {
    const Drilled d(c.deed);
    INFO(c.deed << "\n" << d.error << d.progress);
    REQUIRE(d.error.empty());
    const DrillCheck* failed = d.report.failed();
    REQUIRE(failed != nullptr);
    CHECK_FALSE(d.report.passed());
    CHECK_THAT(failed->what, Contains(c.check));
    CHECK_THAT(failed->found, Contains(c.found));
    CHECK_THAT(failed->advice, Contains(c.advice));
    CHECK_THAT(d.progress, Contains("FAILED: " + failed->what));
    CHECK(d.report.drilled.empty());
    CHECK(d.marked() == 0);
  }
}

TEST_CASE("a drill without a yardstick, and one that cannot write its mark, end with an error", "[accept]") {
  const Drilled whole("whole_fails");
  CHECK(whole.kind == ErrorKind::rank_failed);
  CHECK_THAT(whole.error, Contains("exit code 7: the fake was told to fail") && Contains("whole.log"));
  const Drilled marker("marker_in_the_way");
  INFO(marker.progress);
  CHECK(marker.kind == ErrorKind::environment);
  CHECK_THAT(marker.error, Contains("DRILLED"));
}

}  // namespace trainctl::testing
