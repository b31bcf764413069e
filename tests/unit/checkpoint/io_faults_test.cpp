// tests/unit/checkpoint/io_faults_test.cpp -- reads and writes that end short, are interrupted or fail, on every path
// to the disk: the bytes arrive whole, or the save fails with its cause.
#include <cerrno>
#include <cstring>
#include <set>

#include "base/hash.h"
#include "checkpoint/scan.h"
#include "checkpoint/verify.h"
#include "faulty_queue.h"
#include "fixture.h"
#include "support/catch.h"

namespace trainctl::testing {
namespace {

namespace fs = std::filesystem;

// Two files of several writes each, with tails off every boundary.
std::vector<GlobalTensor> long_model(int64_t tail) {
  return {{"w", "weight", DType::f64, {1300, 1024}, -1, ""},
          {"tail", "buffer", DType::u8, {tail}, -1, ""},
          {"w", "exp_avg", DType::f64, {100, 1001}, -1, ""}};
}

struct Run {
  SaveOutcome outcome;
  RestoreResult restored;
  bool same = false;
};

// Filling and comparing such a state element by element takes longer than saving it: once, and by digests.
class LongState {
 public:
  explicit LongState(int64_t tail) : state(long_model(tail), 0, 1) {
    state.fill(3);
    digests_ = digests();
  }
  bool intact() const { return digests() == digests_; }

  Run save_and_load(const fs::path& folder, const std::string& io, int64_t step, const FaultyQueue::Decide& decide) {
    Run run;
    CheckpointConfig config;
    config.io = io;
    CheckpointerOptions options = options_for(folder);
    if (decide) options.wrap_io = faulty(decide);
    Checkpointer c = build_checkpointer(config, std::move(options), state.arena(), state.catalog);
    c.save(state.catalog, scalars_at(step), SaveReason::interval);
    run.outcome = c.wait().front();
    if (!run.outcome.ok) return run;
    state.wipe();
    run.restored = c.restore(state.catalog);
    run.same = run.restored.step == step && intact();
    return run;
  }

  RankState state;

 private:
  std::vector<std::string> digests() const {
    std::vector<std::string> all;
    for (const StateEntry& e : state.catalog)
      all.push_back(xxh128_hex(e.local.data(), static_cast<size_t>(e.local.bytes())));
    return all;
  }
  std::vector<std::string> digests_;
};

}  // namespace

TEST_CASE("whatever single transfers leave undone is done, on every path to the disk", "[checkpoint]") {
  struct Trouble {
    const char* name;
    FaultyQueue::Decide decide;
  };
  int64_t n = 0;
  const std::vector<Trouble> troubles = {
      {"none", {}},
      {"every transfer is cut to a third, on a boundary",
       [](const IoRequest& r) { return r.bytes > 8192 ? Fate{.at_most = r.bytes / 3 / 4096 * 4096} : Fate{}; }},
      {"every fourth is interrupted",
       [&n](const IoRequest&) { return n++ % 4 == 0 ? Fate{.result = -EINTR} : Fate{}; }},
      {"every third must come back later",
       [&n](const IoRequest&) { return n++ % 3 == 0 ? Fate{.result = -EAGAIN} : Fate{}; }},
      {"every fifth ends off a boundary",
       [&n](const IoRequest& r) { return n++ % 5 == 0 && !r.write ? Fate{.at_most = 4097} : Fate{}; }}};
  for (const int64_t tail : {4096, 1, 4095}) {
    LongState state(tail);
    for (const std::string& path : io_paths())
      for (const Trouble& trouble : troubles) {
        if (tail != 4095 && trouble.decide) continue;
        CAPTURE(path, trouble.name, tail);
        n = 0;
        ScratchFolder folder(true);
        const Run run = state.save_and_load(folder.path(), path, 3, trouble.decide);
        CHECK(run.outcome.reason == "");
        REQUIRE(run.outcome.ok);
        CHECK(run.same);
        CHECK(verify_checkpoint(run.outcome.folder, true).faults.empty());
        for (const std::string& text : {run.outcome.io_path, run.restored.cost.io_path}) {
          CAPTURE(text);
          if (path != "auto") CHECK(text.starts_with("pread/pwrite"));
          if (path == "buffered") CHECK(text == "pread/pwrite, page cache");
        }
      }
  }
}

TEST_CASE("a zero count is asked for once more, and then is a failure that names the file", "[checkpoint]") {
  LongState state(5);
  for (const std::string& path : io_paths()) {
    CAPTURE(path);
    ScratchFolder folder(true);
    bool once = true;
    const auto one_zero = [&](const IoRequest& r) {
      return r.write && std::exchange(once, false) ? Fate{.result = 0} : Fate{};
    };
    CHECK(state.save_and_load(folder.path(), path, 1, one_zero).outcome.ok);
    const Run stuck = state.save_and_load(folder.path(), path, 2, [](const IoRequest& r) {
      return r.write && r.offset > 0 ? Fate{.result = 0} : Fate{};
    });
    CHECK_FALSE(stuck.outcome.ok);
    CHECK(stuck.outcome.reason.find("model-r00000.safetensors: no byte is accepted") != std::string::npos);
    CHECK(inspect_folder(folder.path() / "step-00000001").state == CheckpointState::usable);
  }
}

TEST_CASE("a failing write fails the save with its cause, costs no older one, and the next save works",
          "[checkpoint]") {
  LongState state(5);
  for (const std::string& path : io_paths())
    for (const int code : {EIO, ENOSPC, EDQUOT})
      for (const int failing : {1, 2, 4}) {
        if (code != EIO && failing != 2) continue;
        CAPTURE(path, code, failing);
        ScratchFolder folder(true);
        REQUIRE(state.save_and_load(folder.path(), path, 1, {}).outcome.ok);
        int writes = 0;
        const Run run = state.save_and_load(folder.path(), path, 2, [&](const IoRequest& r) {
          return r.write && ++writes == failing ? Fate{.result = -code} : Fate{};
        });
        CHECK_FALSE(run.outcome.ok);
        CHECK(run.outcome.reason.find(std::strerror(code)) != std::string::npos);
        CHECK(run.outcome.reason.find("-r00000.safetensors") != std::string::npos);
        CHECK_FALSE(fs::exists(folder.path() / "step-00000002"));
        CHECK(inspect_folder(folder.path() / "step-00000001").state == CheckpointState::usable);
        CHECK(state.save_and_load(folder.path(), path, 3, {}).same);
      }
}

TEST_CASE("a file system that takes O_DIRECT and refuses the transfer is used through the page cache", "[checkpoint]") {
  LongState state(7);
  for (const char* path : {"auto", "threads"}) {
    CAPTURE(path);
    ScratchFolder folder(true);
    std::set<std::pair<bool, int64_t>> seen;  // the first attempt of every transfer at an offset
    const Run run = state.save_and_load(folder.path(), path, 1, [&](const IoRequest& r) {
      return seen.insert({r.write, r.offset}).second ? Fate{.result = -EINVAL} : Fate{};
    });
    CHECK(run.outcome.reason == "");
    REQUIRE(run.outcome.ok);
    CHECK(run.same);
    CHECK(run.outcome.io_path.find("page cache") != std::string::npos);
    CHECK(run.outcome.io_path.find("O_DIRECT is refused") != std::string::npos);
    const Run never = state.save_and_load(
        folder.path(), path, 2, [](const IoRequest& r) { return r.write ? Fate{.result = -EINVAL} : Fate{}; });
    CHECK_FALSE(never.outcome.ok);
    CHECK(never.outcome.reason.find(std::strerror(EINVAL)) != std::string::npos);
  }
}

TEST_CASE("a block that reads wrong once is read again; a read that fails takes the older checkpoint", "[checkpoint]") {
  LongState state(5);
  for (const std::string& path : io_paths()) {
    CAPTURE(path);
    ScratchFolder folder(true);
    bool spoil = true;
    const Run run = state.save_and_load(folder.path(), path, 1, [&](const IoRequest& r) {
      return Fate{.spoil = !r.write && std::exchange(spoil, false)};
    });
    REQUIRE(run.outcome.ok);
    CHECK_FALSE(spoil);
    CHECK(run.same);

    REQUIRE(state.save_and_load(folder.path(), path, 2, {}).outcome.ok);
    CheckpointConfig config;
    config.io = path;
    int reads = 0;
    CheckpointerOptions options = options_for(folder.path());
    options.wrap_io = faulty([&](const IoRequest&) { return ++reads == 2 ? Fate{.result = -EIO} : Fate{}; });
    Checkpointer c = build_checkpointer(config, std::move(options), state.state.arena(), state.state.catalog);
    state.state.wipe();
    const RestoreResult result = c.restore(state.state.catalog);
    CHECK(result.step == 1);
    CHECK(state.intact());
    REQUIRE(result.rejected.size() == 1);
    CHECK(result.rejected[0].find(std::strerror(EIO)) != std::string::npos);
    CHECK(inspect_folder(folder.path() / "step-00000002").state == CheckpointState::usable);  // the bytes may be good
  }
}

}  // namespace trainctl::testing
