// tests/unit/checkpoint/interruption_test.cpp -- a run that dies at any step of the protocol leaves the previous
// checkpoint usable and no partial one; a failing save is a value, and the next one works.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "base/philox.h"
#include "checkpoint/posix_io.h"
#include "checkpoint/retention.h"
#include "checkpoint/scan.h"
#include "fixture.h"
#include "support/catch.h"

namespace trainctl::testing {
namespace {

namespace fs = std::filesystem;

// The state that "auto" restores from `folder` on one rank: its step, -1 for none; checks every element against
// salt == step.
int64_t restored_step(const fs::path& folder) {
  RankState state(small_model(), 0, 1);
  Checkpointer c = build_checkpointer({}, options_for(folder), state.arena(), state.catalog);
  const RestoreResult result = c.restore(state.catalog);
  if (!result.found) return -1;
  CHECK(state.difference(static_cast<uint32_t>(result.step)) == "");
  return result.step;
}

// One save of `step` by `world` ranks into `folder`; at every protocol step of rank `watched`, copies the folder.
std::vector<std::pair<SavePoint, fs::path>> snapshots_of_save(const fs::path& folder, const fs::path& copies,
                                                              int64_t world, int64_t watched, int64_t step,
                                                              const std::string& io = "auto") {
  std::vector<std::pair<SavePoint, fs::path>> snapshots;
  ThreadWorld ranks(world);
  on_ranks(world, [&](int64_t r) {
    RankState state(small_model(), r, world);
    state.fill(static_cast<uint32_t>(step));
    CheckpointConfig config;
    config.keep = 2;
    config.io = io;
    CheckpointerOptions options = options_for(folder, ranks.agreement(r));
    if (r == watched)
      options.on_point = [&](SavePoint point) {
        const fs::path copy = copies / fmt::format("step-{}-point-{}", step, static_cast<int>(point));
        std::error_code moving;  // other ranks go on meanwhile: a file may be renamed under the copy
        fs::copy(folder, copy, fs::copy_options::recursive, moving);
        snapshots.emplace_back(point, copy);
      };
    Checkpointer c = build_checkpointer(config, std::move(options), state.arena(), state.catalog);
    c.save(state.catalog, scalars_at(step), SaveReason::interval);
    for (const SaveOutcome& o : c.wait())
      if (!o.ok) throw std::runtime_error(o.reason);
  });
  return snapshots;
}

}  // namespace

TEST_CASE("killed after any step of the protocol, a run finds the previous checkpoint or the new one whole",
          "[checkpoint]") {
  const std::string io = GENERATE(from_range(io_paths()));
  for (const int64_t world : {1, 2}) {
    ScratchFolder folder, copies;
    int64_t previous = -1;
    for (const int64_t step : {1, 2, 3, 4}) {  // the third and fourth also run retention
      const auto snapshots = snapshots_of_save(folder.path(), copies.path(), world, 0, step, io);
      REQUIRE(snapshots.size() == static_cast<size_t>(kSavePoints));
      for (const auto& [point, copy] : snapshots) {
        CAPTURE(io, world, step, static_cast<int>(point));
        CHECK(restored_step(copy) == (point >= SavePoint::committed ? step : previous));
        save_once(copy, 1, step + 10, static_cast<uint32_t>(step + 10));  // and the next save works there
        CHECK(restored_step(copy) == step + 10);
        CHECK(names_in(copy / ".staging").empty());
      }
      previous = step;
    }
  }
}

TEST_CASE("a killed rank other than 0 leaves the previous checkpoint usable", "[checkpoint]") {
  ScratchFolder folder, copies;
  save_once(folder.path(), 3, 1, 1);
  for (const auto& [point, copy] : snapshots_of_save(folder.path(), copies.path(), 3, 2, 2)) {
    CAPTURE(static_cast<int>(point));
    const int64_t step = restored_step(copy);
    CHECK((point >= SavePoint::receipt ? step == 1 || step == 2 : step == 1));
  }
}

TEST_CASE("a process killed at random moments while it saves again and again never loses what was committed",
          "[checkpoint]") {
  const std::string io = GENERATE(from_range(io_paths()));
  CAPTURE(io);
  ScratchFolder folder;
  int64_t newest = -1;
  for (uint64_t trial = 0; trial < 25; ++trial) {
    const pid_t child = ::fork();
    if (child == 0) {  // no test macros here
      for (int64_t step = newest + 1; step < newest + 100000; ++step)
        save_once(folder.path(), 1, step, static_cast<uint32_t>(step), 2, io);
      ::_exit(0);
    }
    // Once it has committed something new, at any moment of the saves after that.
    const auto has_newer = [&] {
      const std::vector<CheckpointInfo> all = scan_checkpoints(folder.path());
      return std::any_of(all.begin(), all.end(), [&](const CheckpointInfo& info) {
        return info.state == CheckpointState::usable && info.step > newest;
      });
    };
    for (int i = 0; i < 10000 && !has_newer(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::microseconds(philox(5, 0, trial)[0] % 20000));
    ::kill(child, SIGKILL);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));
    const int64_t found = restored_step(folder.path());
    CHECK(found >= newest);
    newest = found;
    for (const CheckpointInfo& info : scan_checkpoints(folder.path()))
      CHECK((info.state == CheckpointState::usable || info.state == CheckpointState::incomplete));
  }
  CHECK(newest >= 24);
}

TEST_CASE("replacing a step keeps the old one until the new one is committed", "[checkpoint]") {
  ScratchFolder folder, copies;
  save_once(folder.path(), 1, 5, 50);
  for (const auto& [point, copy] : snapshots_of_save(folder.path(), copies.path(), 1, 0, 5)) {
    CAPTURE(static_cast<int>(point));
    RankState state(small_model(), 0, 1);
    Checkpointer c = build_checkpointer({}, options_for(copy), state.arena(), state.catalog);
    const RestoreResult result = c.restore(state.catalog);
    CHECK(result.step == 5);
    CHECK(state.difference(point >= SavePoint::committed ? 5 : 50) == "");
    save_once(copy, 1, 6, 6);  // an interrupted replacement does not linger
    save_once(copy, 1, 7, 7);
    for (const std::string& name : names_in(copy))
      if (point >= SavePoint::committed) CHECK(name.find("superseded") == std::string::npos);
  }
}

TEST_CASE("a save that fails at any step is a value with a reason, never an exception, and costs no older one",
          "[checkpoint]") {
  const std::string io = GENERATE(from_range(io_paths()));
  for (int p = 0; p < kSavePoints; ++p) {
    const auto failing = static_cast<SavePoint>(p);
    for (const int64_t failing_rank : {0, 1}) {
      if (failing_rank == 1 && failing >= SavePoint::receipt) continue;  // rank 1 ends there
      CAPTURE(io, p, failing_rank);
      ScratchFolder folder;
      save_once(folder.path(), 2, 1, 1);
      ThreadWorld ranks(2);
      std::vector<SaveOutcome> first(2), second(2);
      on_ranks(2, [&](int64_t r) {
        RankState state(small_model(), r, 2);
        state.fill(2);
        bool armed = true;
        CheckpointerOptions options = options_for(folder.path(), ranks.agreement(r));
        options.on_point = [&](SavePoint point) {
          if (armed && r == failing_rank && point == failing) fail(ErrorKind::environment, "the disk caught fire");
        };
        CheckpointConfig config;
        config.deadline_s = 30;
        config.io = io;
        Checkpointer c = build_checkpointer(config, std::move(options), state.arena(), state.catalog);
        c.save(state.catalog, scalars_at(2), SaveReason::interval);
        first[static_cast<size_t>(r)] = c.wait().front();
        ranks.agreement(r).all_agree(true);
        armed = false;
        state.fill(3);
        c.save(state.catalog, scalars_at(3), SaveReason::interval);
        second[static_cast<size_t>(r)] = c.wait().front();
      });
      const bool committed = failing >= SavePoint::committed;
      for (const SaveOutcome& o : first) CHECK(o.ok == committed);
      for (const SaveOutcome& o : first)
        if (!committed) CHECK(o.reason.find("caught fire") != std::string::npos);
      if (!committed && failing_rank == 1) CHECK(first[0].reason.find("rank 1") != std::string::npos);
      for (const SaveOutcome& o : second) CHECK(o.ok);
      for (const SaveOutcome& o : second) CHECK(o.reason == "");
      CHECK(inspect_folder(folder.path() / "step-00000001").state == CheckpointState::usable);
      CHECK(fs::exists(folder.path() / "step-00000002") == committed);
      CHECK(restored_step(folder.path()) == 3);
      CHECK(names_in(folder.path() / ".staging").empty());
    }
  }
}

TEST_CASE("a rank without a receipt at the deadline is named", "[checkpoint]") {
  ScratchFolder folder;
  ThreadWorld ranks(3);
  std::vector<SaveOutcome> outcomes(3);
  on_ranks(3, [&](int64_t r) {
    RankState state(small_model(), r, 3);
    state.fill(1);
    CheckpointConfig config;
    config.deadline_s = 0.2;
    CheckpointerOptions options = options_for(folder.path(), ranks.agreement(r));
    if (r == 2)
      options.on_point = [](SavePoint point) {
        if (point == SavePoint::half_written) std::this_thread::sleep_for(std::chrono::milliseconds(600));
      };
    Checkpointer c = build_checkpointer(config, std::move(options), state.arena(), state.catalog);
    c.save(state.catalog, scalars_at(1), SaveReason::interval);
    outcomes[static_cast<size_t>(r)] = c.wait().front();
  });
  for (const SaveOutcome& o : outcomes) CHECK_FALSE(o.ok);
  CHECK(outcomes[0].reason.find("from rank 2") != std::string::npos);
  CHECK(outcomes[1].reason.find("from rank 2") != std::string::npos);
  CHECK_FALSE(fs::exists(folder.path() / "step-00000001"));
}

TEST_CASE("boxes that overlap or leave holes over the ranks are never committed", "[checkpoint]") {
  for (const bool hole : {false, true}) {
    ScratchFolder folder;
    ThreadWorld ranks(2);
    std::vector<SaveOutcome> outcomes(2);
    on_ranks(2, [&](int64_t r) {
      RankState state(small_model(), r, 2);
      state.fill(1);
      for (StateEntry& e : state.catalog)
        if (e.name == "plain.weight" && e.role == "momentum" && r == 1) {
          e.owner = !hole;
          if (!hole) e.box.offset[1] -= 1;
        }
      Checkpointer c =
          build_checkpointer({}, options_for(folder.path(), ranks.agreement(r)), state.arena(), state.catalog);
      c.save(state.catalog, scalars_at(1), SaveReason::interval);
      outcomes[static_cast<size_t>(r)] = c.wait().front();
    });
    for (const SaveOutcome& o : outcomes) {
      CHECK_FALSE(o.ok);
      CHECK(o.reason.find("plain.weight") != std::string::npos);
      CHECK(o.reason.find(hole ? "of 105 elements" : "overlap") != std::string::npos);
    }
  }
}

TEST_CASE("a checkpointer that goes while a save is in flight cancels it soon", "[checkpoint]") {
  ScratchFolder folder;
  RankState state(small_model(), 0, 1);
  state.fill(1);
  CheckpointerOptions options = options_for(folder.path());
  options.agreement.world = 2;  // the other rank never comes
  const auto start = std::chrono::steady_clock::now();
  {
    Checkpointer c = build_checkpointer({}, std::move(options), state.arena(), state.catalog);
    c.save(state.catalog, scalars_at(1), SaveReason::interval);
  }
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
  CHECK(scan_checkpoints(folder.path()).empty());
}

}  // namespace trainctl::testing
