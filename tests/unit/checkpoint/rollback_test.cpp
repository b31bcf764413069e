// tests/unit/checkpoint/rollback_test.cpp -- what becomes of the steps beyond one that a run is told to go back to.
#include "checkpoint/checkpointer.h"
#include "checkpoint/posix_io.h"
#include "checkpoint/retention.h"
#include "checkpoint/scan.h"
#include "checkpoint/verify.h"
#include "fixture.h"
#include "support/catch.h"

namespace trainctl::testing {

namespace fs = std::filesystem;

TEST_CASE("a rollback to a named step leaves the steps beyond it when it is accepted, before anything is saved",
          "[checkpoint]") {
  ScratchFolder folder;
  for (int64_t step = 1; step <= 4; ++step) save_once(folder.path(), 1, step, 1, 9);
  RankState state(small_model(), 0, 1);
  CheckpointConfig config;
  config.keep = 9;
  config.async = false;
  Checkpointer c = build_checkpointer(config, options_for(folder.path()), state.arena(), state.catalog);
  CHECK(c.restore(state.catalog, (folder.path() / "step-00000002").string()).step == 2);
  CHECK(inspect_folder(folder.path() / "step-00000004").state == CheckpointState::usable);
  CHECK(c.leave_later_steps() ==
        std::vector<fs::path>{folder.path() / "step-00000004", folder.path() / "step-00000003"});
  CHECK(c.leave_later_steps().empty());
  {  // a crash here: whoever starts again stays on the branch that was chosen
    Checkpointer next = build_checkpointer(config, options_for(folder.path()), state.arena(), state.catalog);
    CHECK(next.restore(state.catalog).step == 2);
    CHECK(next.leave_later_steps().empty());
  }
  c.save(state.catalog, scalars_at(3), SaveReason::interval);  // replaces the old step 3
  REQUIRE(c.poll().front().ok);
  CHECK(c.restore(state.catalog).step == 3);
  const CheckpointInfo old = inspect_folder(folder.path() / "step-00000004");
  CHECK(old.state == CheckpointState::unusable);
  CHECK(old.reason.find("superseded") != std::string::npos);
  CHECK(mark_usable(folder.path() / "step-00000004").changed);
  CHECK(c.restore(state.catalog).step == 4);
}

TEST_CASE("a rollback marks what is damaged beyond it, which may heal, and leaves other runs' states alone",
          "[checkpoint]") {
  ScratchFolder folder;
  for (const int64_t step : {1, 2, 3}) save_once(folder.path(), 1, step, 1, 9);
  const fs::path shard = folder.path() / "step-00000003/data/model-r00000.safetensors", aside = folder.path() / "aside";
  fs::rename(shard, aside);
  RankState state(small_model(), 0, 1);
  CheckpointerOptions options = options_for(folder.path());
  const std::string run = options.run_id;
  options.run_id = "another";
  CheckpointConfig config;
  config.async = false;
  config.keep = 9;
  {
    Checkpointer other = build_checkpointer(config, std::move(options), state.arena(), state.catalog);
    state.fill(7);
    other.save(state.catalog, scalars_at(7), SaveReason::interval);
    REQUIRE(other.wait().front().ok);
  }
  Checkpointer c = build_checkpointer(config, options_for(folder.path()), state.arena(), state.catalog);
  CHECK(c.restore(state.catalog, (folder.path() / "step-00000001").string()).step == 1);
  CHECK(c.leave_later_steps() == std::vector<fs::path>{folder.path() / "step-00000002"});
  fs::rename(aside, shard);
  CHECK(inspect_folder(folder.path() / "step-00000003").state == CheckpointState::unusable);
  CHECK(inspect_folder(folder.path() / "step-00000007").state == CheckpointState::usable);
  CHECK(c.restore(state.catalog).step == 1);
}

}  // namespace trainctl::testing
