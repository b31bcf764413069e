// tests/unit/checkpoint/replaced_states_test.cpp -- states of other runs among a run's own, and what becomes of a state
// whose step is saved again.
#include "checkpoint/retention.h"
#include "checkpoint/scan.h"
#include "fixture.h"
#include "support/catch.h"

namespace trainctl::testing {
namespace {

namespace fs = std::filesystem;

void save_as(const fs::path& root, const std::string& run, int64_t step, const std::string& proof = "none",
             uint32_t salt = 0) {
  RankState state(small_model(), 0, 1);
  state.fill(static_cast<uint32_t>(step) + salt);
  CheckpointerOptions options = options_for(root);
  options.run_id = run;
  CheckpointConfig config;
  config.keep = 1;
  config.verify_after_save = proof;
  Checkpointer c = build_checkpointer(config, std::move(options), state.arena(), state.catalog);
  c.save(state.catalog, scalars_at(step), SaveReason::interval);
  REQUIRE(c.wait().front().ok);
}

std::vector<int64_t> steps_in(const fs::path& folder) {
  std::vector<int64_t> steps;
  for (const CheckpointInfo& info : scan_checkpoints(folder))
    if (!is_superseded(info)) steps.push_back(info.step);
  return steps;
}

std::vector<CheckpointInfo> aside_in(const fs::path& folder) {
  std::vector<CheckpointInfo> aside = scan_checkpoints(folder);
  std::erase_if(aside, [](const CheckpointInfo& info) { return !is_superseded(info); });
  return aside;
}

void verify(const fs::path& folder) { mark_verified(folder, inspect_folder(folder).manifest_sha256, "by hand"); }

}  // namespace

TEST_CASE("another run's states among a run's own are neither counted as kept nor removed", "[checkpoint]") {
  ScratchFolder folder, other;
  save_as(folder.path(), "mine", 3);
  for (const int64_t step : {2, 100}) {  // one below the run's own, one above
    fs::remove_all(other.path() / "LATEST");
    save_as(other.path(), "theirs", step);
    fs::copy(other.path() / folder_name_of(step), folder.path() / folder_name_of(step), fs::copy_options::recursive);
  }
  for (const int64_t step : {4, 5}) save_as(folder.path(), "mine", step);
  CHECK(steps_in(folder.path()) == std::vector<int64_t>{100, 5, 2});
  CHECK(prune_checkpoints(folder.path(), RetentionPolicy(1, 0, "mine"), true).empty());
  const std::vector<fs::path> lost = prune_checkpoints(folder.path(), RetentionPolicy(1, 0, "theirs"), true);
  CHECK(lost == std::vector<fs::path>{folder.path() / folder_name_of(2)});
}

TEST_CASE("another run's state of a step that is saved stays beside it, over later saves", "[checkpoint]") {
  ScratchFolder folder, other;
  save_as(other.path(), "theirs", 4);
  for (const int64_t step : {2, 3}) save_as(folder.path(), "mine", step);
  fs::copy(other.path() / folder_name_of(4), folder.path() / folder_name_of(4), fs::copy_options::recursive);
  for (const int64_t step : {4, 5, 6}) {
    save_as(folder.path(), "mine", step, "none", 7);
    const std::vector<CheckpointInfo> aside = aside_in(folder.path());
    REQUIRE(aside.size() == 1);
    CHECK(aside[0].state == CheckpointState::usable);
    CHECK(aside[0].manifest_sha256 == inspect_folder(other.path() / folder_name_of(4)).manifest_sha256);
  }
  CHECK(steps_in(folder.path()) == std::vector<int64_t>{6});
}

TEST_CASE("a verified state stays beside the unproven one of its step until a state of that step or a later one is",
          "[checkpoint]") {
  for (const std::string proof : {"none", "readback"}) {
    CAPTURE(proof);
    ScratchFolder folder;
    save_as(folder.path(), "mine", 4, proof);
    verify(folder.path() / folder_name_of(4));
    const std::string proven = inspect_folder(folder.path() / folder_name_of(4)).manifest_sha256;
    for (const int64_t step : {4, 5}) {
      save_as(folder.path(), "mine", step, "none", 7);
      const std::vector<CheckpointInfo> aside = aside_in(folder.path());
      REQUIRE(aside.size() == 1);
      CHECK(aside[0].verified);
      CHECK(aside[0].manifest_sha256 == proven);
    }
    verify(folder.path() / folder_name_of(5));
    save_as(folder.path(), "mine", 6);
    CHECK(aside_in(folder.path()).empty());
  }
  ScratchFolder folder;  // a successor that is proven as it is saved, and one of a state that was never proven
  save_as(folder.path(), "mine", 4);
  verify(folder.path() / folder_name_of(4));
  save_as(folder.path(), "mine", 4, "readback", 7);
  CHECK(aside_in(folder.path()).empty());
  save_as(folder.path(), "mine", 5);
  save_as(folder.path(), "mine", 5, "none", 7);
  CHECK(aside_in(folder.path()).empty());
}

}  // namespace trainctl::testing
