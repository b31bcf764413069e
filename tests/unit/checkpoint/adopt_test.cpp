// tests/unit/checkpoint/adopt_test.cpp -- a save whose rank 0 died after all receipts were in can be ended by somebody
// else, and only then.
#include "checkpoint/adopt.h"

#include <map>
#include <system_error>

#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/markers.h"
#include "checkpoint/posix_io.h"
#include "checkpoint/retention.h"
#include "fixture.h"
#include "support/catch.h"

namespace trainctl::testing {
namespace {

namespace fs = std::filesystem;

// The writer of every attempt below `root` has ended.
void bury_owners(const fs::path& root) {
  for (const fs::path& file : files_below(root)) {
    if (file.filename() != kAttemptName) continue;
    Attempt attempt = attempt_from_text(file_bytes(file), file.string());
    attempt.owner.start_ticks += 1;  // another process had this number
    put_bytes(file, to_text(attempt));
  }
}

// Saves step 1, then step 2 with 3 ranks; copies the folder to `copy` when rank 0 reaches `point`, as a kill there
// would leave it. Returns the attempt's folder in the copy.
fs::path killed_at(SavePoint point, const fs::path& folder, const fs::path& copy) {
  save_once(folder, 3, 1, 1);
  ThreadWorld ranks(3);
  on_ranks(3, [&](int64_t r) {
    RankState state(small_model(), r, 3);
    state.fill(2);
    CheckpointerOptions options = options_for(folder, ranks.agreement(r));
    if (r == 0)
      options.on_point = [&](SavePoint here) {
        if (here != point) return;
        std::error_code moving(EAGAIN, std::generic_category());
        while (moving) {  // the writers of the other ranks may be giving a file its name
          fs::remove_all(copy);
          fs::copy(folder, copy, fs::copy_options::recursive, moving);
        }
      };
    Checkpointer c = build_checkpointer({}, std::move(options), state.arena(), state.catalog);
    c.save(state.catalog, scalars_at(2), SaveReason::interval);
    if (!c.wait().front().ok) throw std::runtime_error("not saved");
  });
  bury_owners(copy);
  if (point >= SavePoint::published) return copy / "step-00000002";
  return copy / ".staging" / names_in(copy / ".staging").at(0);
}

RestoreResult restored(const fs::path& folder, uint32_t salt) {
  RankState state(small_model(), 0, 1);
  Checkpointer c = build_checkpointer({}, options_for(folder), state.arena(), state.catalog);
  const RestoreResult result = c.restore(state.catalog);
  CHECK(state.difference(salt) == "");
  return result;
}

std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> all;
  for (const fs::path& file : files_below(folder)) {
    const std::string bytes = file_bytes(file);
    all[file.lexically_relative(folder).string()] = xxh128_hex(bytes.data(), bytes.size());
  }
  return all;
}

std::string refusal(const fs::path& folder, bool run_is_over = true) {
  try {
    adopt_attempt(folder, run_is_over);
    return "";
  } catch (const Error& e) {
    const bool live = std::string(e.what()).find(" live") != std::string::npos;  // somebody uses it: no fault of it
    CHECK(e.kind() == (live ? ErrorKind::environment : ErrorKind::checkpoint));
    return e.what();
  }
}

}  // namespace

TEST_CASE(
    "an attempt with all receipts becomes the checkpoint it would have been, from staging, a step folder or a copy",
    "[checkpoint]") {
  for (const SavePoint point : {SavePoint::gathered, SavePoint::manifest, SavePoint::published})
    for (const bool copied : {false, true}) {
      ScratchFolder folder, scratch;
      const fs::path copy = scratch.path() / "copy";
      fs::path attempt = killed_at(point, folder.path(), copy);
      CAPTURE(static_cast<int>(point), copied, attempt.string());
      if (copied && point < SavePoint::published) {  // taken elsewhere, under any name
        fs::rename(attempt, copy / "rescued");
        attempt = copy / "rescued";
      }
      CHECK(restored(copy, 1).step == 1);
      CHECK(adoption_fault(attempt, true) == "");
      const CheckpointInfo info = adopt_attempt(attempt, true);
      CHECK(info.state == CheckpointState::usable);
      CHECK(info.verified);
      CHECK(info.kind == "training");
      CHECK(info.folder == copy / "step-00000002");
      CHECK(restored(copy, 2).step == 2);
      CHECK(verify_checkpoint(info.folder, true).notes.empty());
      Manifest ours = read_manifest(info.folder), theirs = read_manifest(folder.path() / "step-00000002");
      CHECK(ours.reason == "interval, adopted");
      ours.reason = theirs.reason;
      ours.created_ns = theirs.created_ns;
      CHECK(to_text(ours) == to_text(theirs));
      CHECK(latest_from_text(file_bytes(copy / "LATEST"), "LATEST").step == 2);
      CHECK(fs::exists(copy / "step-00000001"));
      CHECK(refusal(info.folder).find("nothing to adopt") != std::string::npos);
    }
}

TEST_CASE("an attempt that is not whole is refused with the reason and left as it was", "[checkpoint]") {
  ScratchFolder folder, scratch;
  const fs::path copy = scratch.path() / "copy";
  const fs::path attempt = killed_at(SavePoint::gathered, folder.path(), copy);
  const fs::path pristine = scratch.path() / "pristine";
  fs::copy(copy, pristine, fs::copy_options::recursive);
  const auto refused = [&](const std::string& needle, const std::function<void()>& spoil, bool run_is_over = true) {
    fs::remove_all(copy);
    fs::copy(pristine, copy, fs::copy_options::recursive);
    spoil();
    const auto before = contents(copy);
    const std::string text = refusal(attempt, run_is_over);
    CAPTURE(needle, text);
    CHECK(text.find(needle) != std::string::npos);
    CHECK(contents(copy) == before);
  };
  const auto edit_receipt = [&](int64_t rank, const std::function<void(Receipt&)>& edit) {
    const fs::path path = attempt / receipt_path(rank);
    Receipt receipt = receipt_from_text(file_bytes(path), "receipt");
    edit(receipt);
    put_bytes(path, to_text(receipt));
  };
  const fs::path optim = attempt / "data/optim-r00001.safetensors";
  refused("1 of 3 receipts are missing, first of ranks 2", [&] { fs::remove(attempt / receipt_path(2)); });
  refused("1 of 3 receipts are missing, first of ranks 2", [&] {  // another file is none
    fs::rename(attempt / receipt_path(2), attempt / "receipts/notes.json");
  });
  refused("rank 1: no space", [&] {
    edit_receipt(1, [](Receipt& r) {
      r.ok = false;
      r.reason = "no space";
    });
  });
  refused("digest", [&] { put_byte(attempt / receipt_path(1), 40, '#'); });
  refused("belongs to step", [&] { edit_receipt(1, [](Receipt& r) { r.attempt = std::string(32, 'a'); }); });
  refused("elements of", [&] {
    edit_receipt(1, [](Receipt& r) {
      for (TensorRecord& t : r.tensors)
        if (t.name == "plain.weight" && t.role == "momentum") t.chunks.clear();
    });
  });
  refused("optim-r00001.safetensors: block 0", [&] { put_byte(optim, file_bytes(optim).size() - 3, '#'); });
  refused("expected", [&] { fs::resize_file(optim, 100); });
  refused("is missing", [&] { fs::remove(optim); });
  refused("links are refused", [&] {
    fs::rename(attempt / "data", attempt / "elsewhere");
    fs::create_directory_symlink(attempt / "elsewhere", attempt / "data");
  });
  refused("attempt.json is missing", [&] { fs::remove(attempt / "attempt.json"); });
  refused("meta/config.json", [&] { put_bytes(attempt / "meta/config.json", "{}"); });
  refused("given up: a test", [&] { mark_unusable(attempt, "a test", "test", ""); });
  refused("is taken", [&] { fs::create_directory(copy / "step-00000002"); });
  refused("is live", [&] {
    Attempt record = attempt_from_text(file_bytes(attempt / "attempt.json"), "attempt");
    record.owner = this_process();
    put_bytes(attempt / "attempt.json", to_text(record));
  });
  const auto elsewhere = [&] {
    Attempt record = attempt_from_text(file_bytes(attempt / "attempt.json"), "attempt");
    record.owner.host = "another-host";
    put_bytes(attempt / "attempt.json", to_text(record));
  };
  refused("younger than ten minutes", elsewhere, false);
  elsewhere();  // the run's lock is free: it is over, wherever it was
  CHECK(refusal(attempt) == "");
  CHECK(refusal(scratch.path() / "nowhere").find("no such folder") != std::string::npos);
}

TEST_CASE("an attempt that could not be adopted before S6 of every rank is refused at each earlier step",
          "[checkpoint]") {
  for (const SavePoint point : {SavePoint::created, SavePoint::half_written, SavePoint::written, SavePoint::flushed}) {
    ScratchFolder folder, scratch;
    const fs::path attempt = killed_at(point, folder.path(), scratch.path() / "copy");
    CHECK(refusal(attempt).find("receipts are missing") != std::string::npos);
  }
}

TEST_CASE("a run that goes back gives up the unfinished saves of the branch that it leaves", "[checkpoint]") {
  for (const SavePoint point : {SavePoint::gathered, SavePoint::published}) {
    ScratchFolder folder, scratch;
    const fs::path copy = scratch.path() / "copy";
    const fs::path attempt = killed_at(point, folder.path(), copy);
    REQUIRE(adoption_fault(attempt, true) == "");
    RankState state(small_model(), 0, 1);
    Checkpointer c = build_checkpointer({}, options_for(copy), state.arena(), state.catalog);
    REQUIRE(c.restore(state.catalog, (copy / "step-00000001").string()).step == 1);
    CHECK(adoption_fault(attempt, true) == "");  // not before the state is accepted
    c.leave_later_steps();
    CHECK(adoption_fault(attempt, true) != "");
    CHECK(scan_attempts(copy, true).empty());
    CHECK(c.restore(state.catalog).step == 1);
  }
}

TEST_CASE("the newest adoptable attempt outlives the next run's failed saves and goes with its first newer commit",
          "[checkpoint]") {
  ScratchFolder folder, scratch;
  const fs::path copy = scratch.path() / "copy";
  const fs::path attempt = killed_at(SavePoint::gathered, folder.path(), copy);
  fs::create_directories(copy / ".staging/step-00000009.0123/data");  // of a save that was killed earlier
  fs::create_directories(copy / ".staging/readback.0123");
  RankState state(small_model(), 0, 1);
  bool failing = true;
  CheckpointerOptions options = options_for(copy);
  options.on_point = [&failing](SavePoint point) {
    if (failing && point == SavePoint::written) fail(ErrorKind::environment, "the disk caught fire");
  };
  Checkpointer c = build_checkpointer({}, std::move(options), state.arena(), state.catalog);
  state.fill(5);
  c.save(state.catalog, scalars_at(5), SaveReason::interval);
  CHECK_FALSE(c.wait().front().ok);
  CHECK(fs::exists(attempt));
  CHECK_FALSE(fs::exists(copy / ".staging/step-00000009.0123"));
  CHECK_FALSE(fs::exists(copy / ".staging/readback.0123"));
  const std::vector<AttemptInfo> attempts = scan_attempts(copy, true);
  REQUIRE(attempts.size() == 2);
  CHECK(attempts[0].step == 5);
  CHECK(attempts[0].reason.find("caught fire") != std::string::npos);
  CHECK(attempts[1].adoptable);
  CHECK(attempts[1].folder == attempt);
  failing = false;
  c.save(state.catalog, scalars_at(5), SaveReason::interval);
  REQUIRE(c.wait().front().ok);
  CHECK(names_in(copy / ".staging").empty());
}

TEST_CASE("an attempt that waits to be adopted gives its room to a save that needs it", "[checkpoint]") {
  ScratchFolder folder, scratch;
  const fs::path copy = scratch.path() / "copy";
  const fs::path attempt = killed_at(SavePoint::gathered, folder.path(), copy);
  RankState state(small_model(), 0, 1);
  CheckpointerOptions options = options_for(copy);
  options.free_space_margin_bytes = INT64_MAX / 4;
  Checkpointer c = build_checkpointer({}, std::move(options), state.arena(), state.catalog);
  c.save(state.catalog, scalars_at(5), SaveReason::interval);
  CHECK(c.wait().front().skipped);
  CHECK_FALSE(fs::exists(attempt));
}

TEST_CASE("an attempt that says it had more ranks than can be is refused at once", "[checkpoint]") {
  ScratchFolder folder, scratch;
  const fs::path attempt = killed_at(SavePoint::gathered, folder.path(), scratch.path() / "copy");
  Attempt record = attempt_from_text(file_bytes(attempt / kAttemptName), "attempt");
  const std::string draft = record.draft;
  const auto with_world = [&](int64_t world) {
    record.draft = draft;
    const std::string three = "\"world\":3";
    record.draft.replace(record.draft.find(three), three.size(), fmt::format("\"world\":{}", world));
    put_bytes(attempt / kAttemptName, to_text(record));
    return adoption_fault(attempt, true);
  };
  CHECK(with_world(3) == "");
  CHECK(with_world(5) == "2 of 5 receipts are missing, first of ranks 3, 4");
  CHECK(with_world(kMostRanks) == fmt::format("{} of {} receipts are missing, first of ranks 3, 4, 5, 6, 7, 8, 9, 10",
                                              kMostRanks - 3, kMostRanks));
  for (const int64_t world : {kMostRanks + 1, int64_t{1} << 62})
    CHECK_THAT(with_world(world), Catch::Contains(fmt::format("world = {}", world)));
}

}  // namespace trainctl::testing
