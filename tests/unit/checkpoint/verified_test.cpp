// tests/unit/checkpoint/verified_test.cpp -- VERIFIED and PINNED: who writes them, what they are worth, when they say
// nothing.
#include "base/error.h"
#include "checkpoint/markers.h"
#include "checkpoint/media_reader.h"
#include "checkpoint/posix_io.h"
#include "checkpoint/retention.h"
#include "checkpoint/verify.h"
#include "fixture.h"
#include "support/catch.h"

namespace trainctl::testing {
namespace {

namespace fs = std::filesystem;

void flip(const fs::path& file, size_t from_end) {
  const std::string bytes = file_bytes(file);
  put_byte(file, bytes.size() - from_end, static_cast<char>(bytes[bytes.size() - from_end] ^ 0x40));
}

// A save of `step` by `world` ranks with read-back; `spoil` runs on rank 0 at `when`, before the commit.
std::vector<SaveOutcome> save_with_readback(const fs::path& folder, int64_t world, int64_t step,
                                            const std::function<void()>& spoil = {},
                                            SavePoint when = SavePoint::published) {
  std::vector<SaveOutcome> outcomes(static_cast<size_t>(world));
  ThreadWorld ranks(world);
  on_ranks(world, [&](int64_t r) {
    RankState state(small_model(), r, world);
    state.fill(static_cast<uint32_t>(step));
    CheckpointConfig config;
    config.keep = 1;
    config.deadline_s = 30;
    config.verify_after_save = "readback";
    CheckpointerOptions options = options_for(folder, ranks.agreement(r));
    if (r == 0 && spoil)
      options.on_point = [&spoil, when](SavePoint point) {
        if (point == when) spoil();
      };
    Checkpointer c = build_checkpointer(config, std::move(options), state.arena(), state.catalog);
    c.save(state.catalog, scalars_at(step), SaveReason::interval);
    outcomes[static_cast<size_t>(r)] = c.wait().front();
  });
  return outcomes;
}

}  // namespace

TEST_CASE("a file read past the page cache has the bytes that were written, whatever its size", "[checkpoint]") {
  for (const bool on_disk : {false, true}) {
    ScratchFolder folder(on_disk);
    for (const int64_t size : {int64_t{0}, int64_t{1}, int64_t{4095}, int64_t{4096}, int64_t{100001}, kBlockBytes,
                               kBlockBytes + 1, 2 * kBlockBytes + 4097}) {
      std::string bytes(static_cast<size_t>(size), '\0');
      for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7 + i / 4096);
      put_bytes(folder.path() / "file", bytes);
      MediaReader reader(folder.path() / "file");
      std::string got;
      for (int64_t at = 0; at < size; at += kBlockBytes) {
        const int64_t count = std::min(kBlockBytes, size - at);
        got.append(reader.read(at, count), static_cast<size_t>(count));
      }
      CHECK(got == bytes);
      if (size < kBlockBytes) CHECK_THROWS_WITH(reader.read(0, size + 1), Catch::Contains("ends at byte"));
    }
    fs::create_symlink(folder.path() / "file", folder.path() / "link");
    CHECK_THROWS_AS(MediaReader(folder.path() / "link"), Error);
    CHECK_THROWS_AS(MediaReader(folder.path()), Error);
  }
}

TEST_CASE("verify --full writes VERIFIED for a whole checkpoint, and it goes with a copy", "[checkpoint]") {
  ScratchFolder folder, other;
  save_once(folder.path(), 2, 1, 1);
  const fs::path checkpoint = folder.path() / "step-00000001";
  CHECK_FALSE(inspect_folder(checkpoint).verified);
  CHECK_FALSE(verify_checkpoint(checkpoint, true).info.verified);  // only looks
  CHECK_FALSE(inspect_folder(checkpoint).verified);
  const VerifyReport report = prove_checkpoint(checkpoint);
  CHECK(report.whole());
  CHECK(report.notes.empty());
  CHECK(report.info.verified);
  CHECK(glance_at_folder(checkpoint).verified);
  fs::copy(checkpoint, other.path() / "copy", fs::copy_options::recursive);
  CHECK(inspect_folder(other.path() / "copy").verified);
  CHECK(verify_checkpoint(other.path() / "copy", true).notes.empty());
}

TEST_CASE("a damaged block makes a checkpoint unusable, with file and block, and VERIFIED beside it means nothing",
          "[checkpoint]") {
  ScratchFolder folder;
  save_once(folder.path(), 2, 1, 1);
  const fs::path checkpoint = folder.path() / "step-00000001";
  REQUIRE(prove_checkpoint(checkpoint).whole());
  flip(checkpoint / "data/optim-r00001.safetensors", 9);
  const VerifyReport report = prove_checkpoint(checkpoint);
  REQUIRE(report.wrong.size() == 1);
  CHECK(report.faults == report.wrong);
  const CheckpointInfo info = inspect_folder(checkpoint);
  CHECK(info.state == CheckpointState::unusable);
  CHECK(info.reason.find("data/optim-r00001.safetensors: block 0") != std::string::npos);
  flip(checkpoint / "data/optim-r00001.safetensors", 9);
  CHECK_FALSE(prove_checkpoint(checkpoint).whole());  // a person takes the mark away, nothing else does
  CHECK(mark_usable(checkpoint).changed);
  CHECK(prove_checkpoint(checkpoint).whole());
}

TEST_CASE("proven damage is not marked away: not at once, not over a person's mark, not by a run that goes back",
          "[checkpoint]") {
  ScratchFolder folder;
  for (int64_t step = 1; step <= 3; ++step) save_once(folder.path(), 2, step, 1, 9);
  const auto at = [&](int64_t step) { return folder.path() / folder_name_of(step); };
  const fs::path file = at(3) / "data/optim-r00001.safetensors";
  const auto refused = [&] {
    try {
      mark_usable(at(3));
      FAIL("damage was marked away");
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::checkpoint);
      CHECK_THAT(e.what(), Catch::Contains("optim-r00001.safetensors: block 0") && Catch::Contains("stays unusable"));
    }
    CHECK(inspect_folder(at(3)).proven_damaged);
    // It does not push a good one out either.
    CHECK(prune_checkpoints(folder.path(), 1, true) == std::vector<fs::path>{at(1)});
  };
  flip(file, 9);
  REQUIRE_FALSE(prove_checkpoint(at(3)).whole());
  refused();
  CHECK_FALSE(mark_unusable(at(3), "loss spike", std::string(kMarkedByHand), ""));  // the proof stays
  CHECK_FALSE(mark_unusable(at(3), "superseded", std::string(kMarkedByResume), ""));
  refused();
  // The other way round: a person marked first, then the damage was found.
  REQUIRE(remove_unusable(at(3)));
  REQUIRE(mark_unusable(at(3), "loss spike", std::string(kMarkedByHand), ""));
  REQUIRE_FALSE(prove_checkpoint(at(3)).whole());
  refused();
  CHECK(file_bytes(at(3) / "UNUSABLE").find("loss spike") != std::string::npos);
  put_bytes(at(3) / "UNUSABLE", "half a li");  // what it said is not known
  refused();
  flip(file, 9);
  const UsableAgain again = mark_usable(at(3));
  CHECK(again.changed);
  CHECK(again.looked.find("every block") != std::string::npos);
  CHECK(inspect_folder(at(3)).verified);
  CHECK(prune_checkpoints(folder.path(), 1, true) == std::vector<fs::path>{at(2), at(1)});
}

TEST_CASE("a person's mark goes after a look at all but the blocks, and stays over what that finds", "[checkpoint]") {
  ScratchFolder folder;
  save_once(folder.path(), 1, 1, 1);
  const fs::path checkpoint = folder.path() / "step-00000001";
  const auto mark = [&](std::string_view detector) {
    REQUIRE(mark_unusable(checkpoint, "a reason", std::string(detector), ""));
  };
  for (const std::string_view detector : {kMarkedByHand, kMarkedByResume}) {
    mark(detector);
    CHECK(mark_usable(checkpoint).looked.find("not the blocks") != std::string::npos);
    CHECK_FALSE(inspect_folder(checkpoint).verified);
  }
  CHECK_FALSE(mark_usable(checkpoint).changed);
  for (const char* name : {"data/model-r00000.safetensors", "COMMITTED", "manifest.json", "meta/config.json",
                           "receipts/rank-00000.json"}) {
    INFO(name);
    const std::string before = file_bytes(checkpoint / name);
    mark(kMarkedByHand);
    fs::remove(checkpoint / name);
    CHECK_THROWS_AS(mark_usable(checkpoint), Error);
    put_bytes(checkpoint / name, before.substr(0, before.size() / 2));
    CHECK_THROWS_AS(mark_usable(checkpoint), Error);
    CHECK(inspect_folder(checkpoint).state == CheckpointState::unusable);
    put_bytes(checkpoint / name, before);
    CHECK(mark_usable(checkpoint).changed);
    CHECK(inspect_folder(checkpoint).state == CheckpointState::usable);
  }
}

TEST_CASE("a missing or cut file is a fault that may heal, so it gets no mark", "[checkpoint]") {
  ScratchFolder folder;
  save_once(folder.path(), 1, 1, 1);
  const fs::path checkpoint = folder.path() / "step-00000001", file = checkpoint / "data/model-r00000.safetensors";
  const std::string good = file_bytes(file);
  put_bytes(file, good.substr(0, good.size() / 2));  // a copy that is still under way
  CHECK_FALSE(prove_checkpoint(checkpoint).whole());
  CHECK_FALSE(fs::exists(checkpoint / "UNUSABLE"));
  put_bytes(file, good);
  CHECK(prove_checkpoint(checkpoint).whole());
}

TEST_CASE("a VERIFIED that is torn or of another manifest is ignored with a note", "[checkpoint]") {
  ScratchFolder folder;
  save_once(folder.path(), 1, 1, 1);
  save_once(folder.path(), 1, 2, 2);
  const fs::path one = folder.path() / "step-00000001", two = folder.path() / "step-00000002";
  REQUIRE(prove_checkpoint(one).whole());
  const std::string good = file_bytes(one / "VERIFIED");
  put_bytes(two / "VERIFIED", good);
  const auto ignored = [&] {
    for (const CheckpointInfo& info : {inspect_folder(two), glance_at_folder(two)}) {
      CHECK(info.state == CheckpointState::usable);
      CHECK_FALSE(info.verified);
      REQUIRE(info.notes.size() == 1);
      CHECK(info.notes[0].find("VERIFIED is ignored") != std::string::npos);
    }
  };
  ignored();
  for (const std::string& text : {std::string(), good.substr(0, 40), std::string("yes"), std::string(3000, '[')}) {
    put_bytes(two / "VERIFIED", text);
    ignored();
  }
  fs::remove(two / "VERIFIED");
  fs::create_directory(two / "VERIFIED");
  ignored();
  int64_t accepted = 0;
  for (size_t i = 0; i < good.size(); ++i) {
    put_byte(one / "VERIFIED", i, static_cast<char>(good[i] ^ 2));
    accepted += inspect_folder(one).verified;
    put_byte(one / "VERIFIED", i, good[i]);
  }
  CHECK(accepted == 0);
}

TEST_CASE("with readback every rank reads its files after the commit and rank 0 writes VERIFIED", "[checkpoint]") {
  for (const int64_t world : {1, 3}) {
    ScratchFolder folder;
    for (const SaveOutcome& o : save_with_readback(folder.path(), world, 1)) {
      CAPTURE(o.reason);
      CHECK(o.ok);
      CHECK(o.reason == "");
    }
    const CheckpointInfo info = inspect_folder(folder.path() / "step-00000001");
    CHECK(info.verified);
    CHECK(info.verified_how.find("read back after the save") != std::string::npos);
    CHECK(names_in(folder.path() / ".staging").empty());
  }
}

TEST_CASE("damage that the read-back finds fails the save on every rank, marks it, and removes nothing older",
          "[checkpoint]") {
  for (const int64_t broken : {0, 2}) {
    ScratchFolder folder;
    for (const SaveOutcome& o : save_with_readback(folder.path(), 3, 1)) REQUIRE(o.ok);
    const fs::path checkpoint = folder.path() / "step-00000002";
    const std::string file = fmt::format("data/optim-r{:05}.safetensors", broken);
    const auto outcomes = save_with_readback(folder.path(), 3, 2, [&] { flip(checkpoint / file, 5); });
    for (const SaveOutcome& o : outcomes) {
      CAPTURE(o.reason);
      CHECK_FALSE(o.ok);
      CHECK(o.reason.find(file + ": block 0") != std::string::npos);
      CHECK(o.reason.find(fmt::format("rank {}", broken)) != std::string::npos);
    }
    CHECK(inspect_folder(checkpoint).state == CheckpointState::unusable);
    CHECK(inspect_folder(folder.path() / "step-00000001").verified);
    for (const SaveOutcome& o : save_with_readback(folder.path(), 3, 3)) CHECK(o.ok);
    CHECK_FALSE(fs::exists(folder.path() / "step-00000001"));  // keep is 1, and 3 is verified
  }
}

TEST_CASE("a file that the read-back cannot read proves nothing: no mark, no VERIFIED, and nothing older is removed",
          "[checkpoint]") {
  for (const int64_t broken : {0, 2}) {
    ScratchFolder folder;
    for (const SaveOutcome& o : save_with_readback(folder.path(), 3, 1)) REQUIRE(o.ok);
    const fs::path checkpoint = folder.path() / "step-00000002";
    const fs::path file = checkpoint / fmt::format("data/optim-r{:05}.safetensors", broken);
    const auto outcomes = save_with_readback(folder.path(), 3, 2, [&] {
      fs::rename(file, folder.path() / "elsewhere");
      fs::create_symlink(folder.path() / "elsewhere", file);  // refused at open, as a failing disk would be
    });
    for (const SaveOutcome& o : outcomes) CHECK(o.ok);
    CHECK(outcomes[0].reason.find("not verified: ") != std::string::npos);
    CHECK(outcomes[0].reason.find(fmt::format("rank {}: ", broken)) != std::string::npos);
    fs::rename(folder.path() / "elsewhere", file);
    const CheckpointInfo info = inspect_folder(checkpoint);
    CHECK(info.state == CheckpointState::usable);
    CHECK_FALSE(info.verified);
    CHECK(inspect_folder(folder.path() / "step-00000001").verified);
    for (const SaveOutcome& o : save_with_readback(folder.path(), 3, 3)) CHECK(o.ok);
    CHECK_FALSE(fs::exists(folder.path() / "step-00000001"));
  }
}

TEST_CASE("where verdicts cannot be collected no rank waits for them, and the save is good", "[checkpoint]") {
  ScratchFolder folder;
  const fs::path staging = folder.path() / ".staging";
  const auto outcomes = save_with_readback(
      folder.path(), 3, 1,
      [&] {
        for (const std::string& attempt : names_in(staging))  // step-00000001.<attempt>
          put_bytes(staging / ("readback." + attempt.substr(attempt.find('.') + 1)), "in the way");
      },
      SavePoint::manifest);
  for (const SaveOutcome& o : outcomes) CHECK(o.ok);
  CHECK(outcomes[0].reason.find("not verified: rank 0: cannot create ") != std::string::npos);
  CHECK(inspect_folder(folder.path() / "step-00000001").state == CheckpointState::usable);
  for (const SaveOutcome& o : save_with_readback(folder.path(), 3, 2)) CHECK(o.reason == "");  // and it is swept
}

TEST_CASE("a pin holds in any form until it is taken away, and travels with a copy", "[checkpoint]") {
  ScratchFolder folder, other;
  save_once(folder.path(), 1, 1, 1);
  const fs::path checkpoint = folder.path() / "step-00000001";
  pin_checkpoint(checkpoint, "the paper's figure 2");
  CHECK(inspect_folder(checkpoint).pinned);
  CHECK(inspect_folder(checkpoint).pin_reason == "the paper's figure 2");
  CHECK(inspect_folder(checkpoint).state == CheckpointState::usable);
  CHECK(verify_checkpoint(checkpoint, false).notes.empty());
  fs::copy(checkpoint, other.path() / "copy", fs::copy_options::recursive);
  CHECK(inspect_folder(other.path() / "copy").pinned);
  put_bytes(checkpoint / "PINNED", "half a li");
  CHECK(inspect_folder(checkpoint).pinned);
  CHECK(inspect_folder(checkpoint).notes.size() == 1);
  CHECK(unpin_checkpoint(checkpoint));
  CHECK_FALSE(unpin_checkpoint(checkpoint));
  CHECK_FALSE(inspect_folder(checkpoint).pinned);
}

TEST_CASE("a glance and a close look agree about everything but digests inside the records", "[checkpoint]") {
  ScratchFolder folder;
  for (int64_t step = 1; step <= 7; ++step) save_once(folder.path(), 2, step, 1, 9);
  const auto at = [&](int64_t step) { return folder.path() / folder_name_of(step); };
  fs::remove(at(2) / "COMMITTED");
  mark_unusable(at(3), "bad", "test", "");
  fs::remove(at(4) / "data/model-r00001.safetensors");
  put_bytes(at(5) / "data/stranger", "mine");
  put_bytes(at(6) / "manifest.json", "{}");
  const auto close = scan_checkpoints(folder.path()), glance = scan_checkpoints(folder.path(), Look::glance);
  REQUIRE(close.size() == 7);
  REQUIRE(glance.size() == 7);
  for (size_t i = 0; i < close.size(); ++i) {
    CAPTURE(close[i].step);
    CHECK(close[i].step == glance[i].step);
    CHECK(close[i].state == glance[i].state);
    CHECK(close[i].reason == glance[i].reason);
    CHECK(close[i].bytes == glance[i].bytes);
    CHECK(close[i].kind == glance[i].kind);
  }
}

}  // namespace trainctl::testing
