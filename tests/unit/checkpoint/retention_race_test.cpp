// tests/unit/checkpoint/retention_race_test.cpp -- slow saves, keep 1, and a kill at a random point: what was committed
// is there, and there is always a usable training state. TRAINCTL_CAMPAIGN=1: 400 trials, otherwise 40.
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

// Saves step after step until it is killed, and tells every point of the protocol that it reached as one byte. No test
// macros: this is a child.
[[noreturn]] void save_slowly(const fs::path& folder, int64_t first, uint64_t trial, int told) {
  RankState state(small_model(), 0, 1);
  CheckpointConfig config;
  config.keep = 1;
  config.verify_after_save = trial % 2 == 0 ? "readback" : "none";
  CheckpointerOptions options = options_for(folder);
  uint64_t pause = 0;
  options.on_point = [&pause, trial, told](SavePoint point) {
    const auto byte = static_cast<uint8_t>(point);
    if (::write(told, &byte, 1) != 1) ::_exit(1);
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

// Lets a child save, and kills it at or soon after the n-th point that it tells; n and the little more are random, no
// clock has a say in how far it comes. Returns the steps it said to have committed.
int64_t killed_while_saving(const fs::path& folder, int64_t first, uint64_t trial) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    save_slowly(folder, first, trial, ends[1]);
  }
  ::close(ends[1]);
  const auto random = philox(7, 0, trial);
  int64_t committed = 0;
  for (int64_t n = 1 + random[0] % (4 * kSavePoints); n > 0; --n) {
    uint8_t point = 0;
    REQUIRE(::read(ends[0], &point, 1) == 1);
    committed += point == static_cast<uint8_t>(SavePoint::committed);
  }
  std::this_thread::sleep_for(std::chrono::microseconds(random[1] % 1500));
  ::kill(child, SIGKILL);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  ::close(ends[0]);
  return committed;
}

}  // namespace

TEST_CASE("killed at any moment of slow saves that keep one checkpoint, a run has a usable training state",
          "[checkpoint][retention-race]") {
  ScratchFolder folder;
  save_once(folder.path(), 1, 0, 0, 1);
  pin_checkpoint(folder.path() / "step-00000000", "the first");
  int64_t newest = 0, with_commits = 0, interrupted = 0;
  for (uint64_t trial = 0; trial < trials(); ++trial) {
    CAPTURE(trial, newest);
    const int64_t committed = killed_while_saving(folder.path(), newest + 1, trial);
    with_commits += committed > 0;
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
    CHECK(result.step >= newest + committed);
    CHECK(state.difference(static_cast<uint32_t>(result.step)) == "");
    newest = result.step;
  }
  INFO("trials " << trials() << ", removals interrupted " << interrupted);
  CHECK(with_commits > static_cast<int64_t>(trials() / 2));
  save_once(folder.path(), 1, newest + 1, 1, 1);  // what the kills left over goes with the next whole save
  std::vector<CheckpointInfo> left = scan_checkpoints(folder.path());
  std::erase_if(left, [](const CheckpointInfo& info) { return info.state != CheckpointState::usable; });
  REQUIRE(left.size() >= 2);
  CHECK(left.size() <= 3);  // the newest, the newest verified, the pinned first one
  CHECK(left.front().step == newest + 1);
  CHECK(left.back().step == 0);
}

}  // namespace trainctl::testing
