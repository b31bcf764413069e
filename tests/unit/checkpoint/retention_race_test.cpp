// tests/unit/checkpoint/retention_race_test.cpp -- slow saves, keep 1, and a kill at a random moment: there is always a
// usable training state. TRAINCTL_CAMPAIGN=1: 400 trials, otherwise 40.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>

#include "base/philox.h"
#include "checkpoint/posix_io.h"
#include "checkpoint/retention.h"
#include "checkpoint/scan.h"
#include "fixture.h"
#include "support/catch.h"

namespace trainctl::testing {
namespace {

namespace fs = std::filesystem;

uint64_t trials() {
  const char* campaign = std::getenv("TRAINCTL_CAMPAIGN");
  return campaign != nullptr && std::string(campaign) == "1" ? 400 : 40;
}

// Saves step after step until it is killed. No test macros: this is a child.
[[noreturn]] void save_slowly(const fs::path& folder, int64_t first, uint64_t trial) {
  RankState state(small_model(), 0, 1);
  CheckpointConfig config;
  config.keep = 1;
  config.verify_after_save = trial % 2 == 0 ? "readback" : "none";
  CheckpointerOptions options = options_for(folder);
  uint64_t pause = 0;
  options.on_point = [&pause, trial](SavePoint) {
    std::this_thread::sleep_for(std::chrono::microseconds(philox(6, trial, ++pause)[0] % 1500));
  };
  Checkpointer c = build_checkpointer(config, std::move(options), state.arena(), state.catalog);
  for (int64_t step = first;; ++step) {
    state.fill(static_cast<uint32_t>(step));
    c.save(state.catalog, scalars_at(step), SaveReason::final);
    for (const SaveOutcome& o : c.wait())
      if (!o.ok || !o.reason.empty()) ::_exit(1);
  }
}

}  // namespace

TEST_CASE("killed at any moment of slow saves that keep one checkpoint, a run has a usable training state",
          "[checkpoint][retention-race]") {
  ScratchFolder folder;
  save_once(folder.path(), 1, 0, 0, 1);
  pin_checkpoint(folder.path() / "step-00000000", "the first");
  int64_t newest = 0, moved = 0, interrupted = 0;
  for (uint64_t trial = 0; trial < trials(); ++trial) {
    CAPTURE(trial, newest);
    const pid_t child = ::fork();
    if (child == 0) save_slowly(folder.path(), newest + 1, trial);
    std::this_thread::sleep_for(std::chrono::microseconds(2000 + philox(7, 0, trial)[0] % 40000));
    ::kill(child, SIGKILL);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));
    int64_t usable = 0;
    for (const CheckpointInfo& info : scan_checkpoints(folder.path())) {
      usable += info.state == CheckpointState::usable && info.kind == "training" && info.step > 0;
      CHECK((info.state == CheckpointState::usable || info.state == CheckpointState::incomplete));
    }
    CHECK((newest == 0 || usable >= 1));
    for (const std::string& name : names_in(folder.path())) interrupted += name.starts_with(".trash-");
    CHECK(inspect_folder(folder.path() / "step-00000000").pinned);
    RankState state(small_model(), 0, 1);
    Checkpointer c = build_checkpointer({}, options_for(folder.path()), state.arena(), state.catalog);
    const RestoreResult result = c.restore(state.catalog);
    CHECK(result.found);
    CHECK(result.step >= newest);
    CHECK(state.difference(static_cast<uint32_t>(result.step)) == "");
    moved += result.step > newest;
    newest = result.step;
  }
  INFO("trials " << trials() << ", that committed something " << moved << ", removals interrupted " << interrupted);
  CHECK(moved > static_cast<int64_t>(trials() / 4));
  save_once(folder.path(), 1, newest + 1, 1, 1);  // what the kills left over goes with the next whole save
  std::vector<CheckpointInfo> left = scan_checkpoints(folder.path());
  std::erase_if(left, [](const CheckpointInfo& info) { return info.state != CheckpointState::usable; });
  REQUIRE(left.size() >= 2);
  CHECK(left.size() <= 3);  // the newest, the newest verified, the pinned first one
  CHECK(left.front().step == newest + 1);
  CHECK(left.back().step == 0);
}

}  // namespace trainctl::testing
