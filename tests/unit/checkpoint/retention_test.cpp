// tests/unit/checkpoint/retention_test.cpp -- what is kept, what goes, and in which order.
#include "checkpoint/retention.h"

#include <unistd.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "checkpoint/posix_io.h"
#include "checkpoint/scan.h"
#include "checkpoint/verify.h"
#include "fixture.h"
#include "support/catch.h"

namespace trainctl::testing {
namespace {

namespace fs = std::filesystem;

std::vector<int64_t> steps_in(const fs::path& folder) {
  std::vector<int64_t> steps;
  for (const CheckpointInfo& info : scan_checkpoints(folder)) steps.push_back(info.step);
  return steps;
}

// Root may read everything: as long as this lives, a user who owns `root` and may not.
class WithoutPrivilege {
 public:
  explicit WithoutPrivilege(const fs::path& root) {
    if (::geteuid() != 0) return;
    REQUIRE(::chown(root.c_str(), 65534, 65534) == 0);
    for (const auto& entry : fs::recursive_directory_iterator(root))
      REQUIRE(::chown(entry.path().c_str(), 65534, 65534) == 0);
    root_ = ::seteuid(65534) == 0;
    REQUIRE(root_);
  }
  ~WithoutPrivilege() {
    if (root_ && ::seteuid(0) != 0) std::abort();
  }
  WithoutPrivilege(const WithoutPrivilege&) = delete;
  WithoutPrivilege& operator=(const WithoutPrivilege&) = delete;

 private:
  bool root_ = false;
};

}  // namespace

TEST_CASE("the newest k by step number stay, whatever the names sort like", "[checkpoint]") {
  ScratchFolder folder;
  for (const int64_t step : {8, 9, 10, 99999999, 100000000}) save_once(folder.path(), 1, step, 1, 3);
  CHECK(steps_in(folder.path()) == std::vector<int64_t>{100000000, 99999999, 10});
  save_once(folder.path(), 1, 11, 1, 1);  // older than the newest: it is the one that goes
  CHECK(steps_in(folder.path()) == std::vector<int64_t>{100000000});
  for (const std::string& name : names_in(folder.path())) CHECK(name.find(".trash") == std::string::npos);
}

TEST_CASE("broken, marked and uncommitted checkpoints neither count nor go by themselves; prune takes the broken",
          "[checkpoint]") {
  ScratchFolder folder;
  for (int64_t step = 1; step <= 4; ++step) save_once(folder.path(), 1, step, 1, 9);
  mark_unusable(folder.path() / "step-00000004", "bad", "test", "");
  fs::remove(folder.path() / "step-00000003/COMMITTED");
  fs::remove(folder.path() / "step-00000001/data/model-r00000.safetensors");
  CHECK(apply_retention(folder.path(), 1).empty());
  CHECK(steps_in(folder.path()) == std::vector<int64_t>{4, 3, 2, 1});
  save_once(folder.path(), 1, 5, 1, 1);
  CHECK(steps_in(folder.path()) == std::vector<int64_t>{5, 4, 3, 1});
  CHECK(prune_checkpoints(folder.path(), 1, true).size() == 2);
  CHECK(steps_in(folder.path()).size() == 4);
  CHECK(prune_checkpoints(folder.path(), 1, false).size() == 2);
  CHECK(steps_in(folder.path()) == std::vector<int64_t>{5, 4});
}

TEST_CASE("every n-th training state, pinned ones and the newest verified one stay beside the newest k",
          "[checkpoint]") {
  ScratchFolder folder;
  for (int64_t step = 1; step <= 12; ++step) save_once(folder.path(), 1, step, 1, 99);
  const auto at = [&](int64_t step) { return folder.path() / folder_name_of(step); };
  pin_checkpoint(at(2), "mine");
  REQUIRE(prove_checkpoint(at(3)).whole());
  REQUIRE(prove_checkpoint(at(7)).whole());
  const auto gone = prune_checkpoints(folder.path(), {2, 5}, true);
  CHECK(steps_in(folder.path()).size() == 12);
  CHECK(apply_retention(folder.path(), {2, 5}) == gone);
  CHECK(steps_in(folder.path()) == std::vector<int64_t>{12, 11, 10, 7, 5, 2});
  REQUIRE(prove_checkpoint(at(12)).whole());  // a newer verified one: 7 has done its service
  apply_retention(folder.path(), {2, 5});
  CHECK(steps_in(folder.path()) == std::vector<int64_t>{12, 11, 10, 5, 2});
  unpin_checkpoint(at(2));
  apply_retention(folder.path(), {1, 0});
  CHECK(steps_in(folder.path()) == std::vector<int64_t>{12});
}

TEST_CASE("a checkpoint whose manifest is damaged inside does not count as one of the k", "[checkpoint]") {
  ScratchFolder folder;
  for (int64_t step = 1; step <= 3; ++step) save_once(folder.path(), 1, step, 1, 9);
  const fs::path manifest = folder.path() / "step-00000003/manifest.json";
  put_byte(manifest, file_bytes(manifest).size() / 2, '~');  // the same size: a glance sees nothing
  CHECK(apply_retention(folder.path(), 1).size() == 1);
  CHECK(steps_in(folder.path()) == std::vector<int64_t>{3, 2});
}

TEST_CASE("the recipe's keep_every_steps and pins hold over a run's saves, also when a pinned step is saved again",
          "[checkpoint]") {
  ScratchFolder folder;
  RankState state(small_model(), 0, 1);
  CheckpointConfig config;
  config.keep = 1;
  config.keep_every_steps = 4;
  Checkpointer c = build_checkpointer(config, options_for(folder.path()), state.arena(), state.catalog);
  const auto save = [&](int64_t step, uint32_t salt) {
    state.fill(salt);
    c.save(state.catalog, scalars_at(step), SaveReason::interval);
    const SaveOutcome o = c.wait().front();
    CAPTURE(o.reason);
    REQUIRE(o.ok);
  };
  for (int64_t step = 1; step <= 6; ++step) {
    save(step, 1);
    if (step == 5) pin_checkpoint(folder.path() / "step-00000005", "mine");
  }
  CHECK(steps_in(folder.path()) == std::vector<int64_t>{6, 5, 4});
  c.restore(state.catalog, (folder.path() / "step-00000004").string());
  save(5, 2);  // the pinned state of step 5 stays beside the new one
  save(6, 2);
  std::vector<std::string> names;
  for (const CheckpointInfo& info : scan_checkpoints(folder.path()))
    names.push_back(info.folder.filename().string().substr(0, 25) + (info.pinned ? " pinned" : ""));
  CHECK(names == std::vector<std::string>{"step-00000006", ".superseded-step-00000005 pinned", "step-00000004"});
}

TEST_CASE("an intermediate state does not push a training state out", "[checkpoint]") {
  ScratchFolder folder;
  save_once(folder.path(), 1, 1, 1, 1);
  RankState state(small_model(), 0, 1);
  state.fill(1);
  CheckpointConfig config;
  config.keep = 1;
  Checkpointer c = build_checkpointer(config, options_for(folder.path()), state.arena(), state.catalog);
  for (int64_t step = 2; step <= 4; ++step) {
    ScalarState scalars = scalars_at(step);
    scalars.non_finite_count = 1;
    c.save(state.catalog, scalars, SaveReason::interval);
    REQUIRE(c.wait().front().ok);
  }
  CHECK(steps_in(folder.path()) == std::vector<int64_t>{4, 1});
  CHECK(c.restore(state.catalog).step == 1);
}

TEST_CASE("what may not be read is neither judged incomplete nor removed, pinned or not", "[checkpoint]") {
  ScratchFolder folder;
  save_once(folder.path(), 1, 1, 1);
  pin_checkpoint(folder.path() / "step-00000001", "a paper");
  for (const int64_t step : {2, 3, 4}) save_once(folder.path(), 1, step, static_cast<uint32_t>(step));
  const std::vector<fs::path> closed = {folder.path() / "step-00000001", folder.path() / "step-00000002/manifest.json",
                                        folder.path() / "step-00000003/data"};
  std::vector<std::string> reasons;
  std::vector<fs::path> pruned;
  {
    const WithoutPrivilege without(folder.path());
    for (const fs::path& path : closed) fs::permissions(path, fs::perms::none);
    for (const CheckpointInfo& info : scan_checkpoints(folder.path()))
      if (info.unreadable) reasons.push_back(info.reason);
    pruned = prune_checkpoints(folder.path(), RetentionPolicy(4), false);
    for (const fs::path& path : closed) fs::permissions(path, fs::perms::owner_all);
  }
  CHECK(reasons.size() == 3);
  for (const std::string& reason : reasons)
    CHECK(reason.find("cannot be read: Permission denied") != std::string::npos);
  CHECK(pruned.empty());
  for (const int64_t step : {1, 2, 3, 4})
    CHECK(inspect_folder(folder.path() / folder_name_of(step)).state == CheckpointState::usable);
}

TEST_CASE("a data file that may not be read is no damage: nobody can judge it", "[checkpoint]") {
  ScratchFolder folder;
  save_once(folder.path(), 1, 1, 1);
  const fs::path one = folder.path() / "step-00000001";
  const WithoutPrivilege without(folder.path());
  fs::permissions(one / "data/model-r00000.safetensors", fs::perms::none);
  const CheckpointInfo info = inspect_folder(one);
  CHECK(may_not_be_read(info));
  CHECK_THAT(info.reason, Catch::Contains("cannot be read: Permission denied"));
  fs::permissions(one / "data/model-r00000.safetensors", fs::perms::owner_read);
  CHECK(inspect_folder(one).state == CheckpointState::usable);
}

TEST_CASE("a step that may not be read is replaced, kept aside, and keeps no later save from happening",
          "[checkpoint]") {
  ScratchFolder folder;
  for (const int64_t step : {1, 2}) save_once(folder.path(), 1, step, static_cast<uint32_t>(step));
  std::vector<std::string> aside;
  {
    const WithoutPrivilege without(folder.path());
    fs::permissions(folder.path() / "step-00000002", fs::perms::none);
    for (const int64_t step : {2, 3, 4}) save_once(folder.path(), 1, step, 7);
    for (const std::string& name : names_in(folder.path()))
      if (name.starts_with(".superseded-step-00000002-")) aside.push_back(name);
    for (const std::string& name : aside) fs::permissions(folder.path() / name, fs::perms::owner_all);
  }
  REQUIRE(aside.size() == 1);
  CHECK(fs::exists(folder.path() / aside[0] / "COMMITTED"));
  CHECK(inspect_folder(folder.path() / "step-00000002").state == CheckpointState::usable);
  CHECK(inspect_folder(folder.path() / "step-00000004").state == CheckpointState::usable);
}

TEST_CASE("a linked step folder is refused, and nothing done to a run reaches what the link points to",
          "[checkpoint]") {
  ScratchFolder owner, folder;
  save_once(owner.path(), 1, 2, 1);
  for (const int64_t step : {1, 3, 4}) save_once(folder.path(), 1, step, 1, 9);
  const fs::path link = folder.path() / "step-00000002", target = owner.path() / "step-00000002";
  const auto whole = [&target] {
    return !fs::exists(target / "UNUSABLE") && inspect_folder(target).state == CheckpointState::usable;
  };
  fs::create_directory_symlink(target, link);
  const CheckpointInfo seen = scan_checkpoints(folder.path()).at(2);
  CHECK(seen.folder == link);
  CHECK(seen.state == CheckpointState::damaged);
  CHECK(seen.reason.find("links are refused") != std::string::npos);
  CHECK(prune_checkpoints(folder.path(), RetentionPolicy(2), false) ==
        std::vector<fs::path>{folder.path() / "step-00000001"});
  CHECK(whole());
  const auto marks = [&target] {
    std::vector<std::string> names = names_in(target);
    std::sort(names.begin(), names.end());
    return names;
  };
  const std::vector<std::string> before = marks();
  for (const fs::path& name : {link, link / ""}) {
    CHECK_THROWS_WITH(mark_unusable(name, "x", std::string(kMarkedByHand), ""), Catch::Contains("is a link"));
    CHECK_THROWS_WITH(pin_checkpoint(name, "x"), Catch::Contains("is a link"));
    CHECK_THROWS_WITH(unpin_checkpoint(name), Catch::Contains("is a link"));
    CHECK_THROWS_WITH(remove_unusable(name), Catch::Contains("is a link"));
    CHECK_THROWS_WITH(mark_verified(name, seen.manifest_sha256, "x"), Catch::Contains("is a link"));
    CHECK_THROWS_WITH(mark_drilled(name, seen.manifest_sha256, "x"), Catch::Contains("is a link"));
    const VerifyReport report = prove_checkpoint(name, {});
    CHECK(report.whole());
    REQUIRE_FALSE(report.notes.empty());
    CHECK_THAT(report.notes.back(), Catch::Contains("is a link"));
  }
  CHECK(marks() == before);
  fs::create_directory_symlink(folder.path(), owner.path() / "run");  // the way to a folder may be one
  CHECK(pin_checkpoint(owner.path() / "run/step-00000003", "x").pinned);
  CHECK(unpin_checkpoint(owner.path() / "run/step-00000003"));
  fs::remove(owner.path() / "run");
  move_to_trash(link);
  CHECK(whole());
  CHECK_FALSE(fs::exists(fs::symlink_status(link)));
  fs::create_directory_symlink(target, link);
  for (const int64_t step : {2, 5}) save_once(folder.path(), 1, step, 7, 1);  // replaced, and swept
  CHECK(whole());
  CHECK_FALSE(fs::is_symlink(link));
  fs::create_directory_symlink(target, folder.path() / ".trash-step-00000002-00000000");
  empty_trash(folder.path());
  CHECK(whole());
}

TEST_CASE("a file that has the name of a step is kept under another when that step is saved", "[checkpoint]") {
  ScratchFolder folder;
  save_once(folder.path(), 1, 1, 1);
  write_file_atomically(folder.path() / "step-00000002", "somebody's");
  for (const int64_t step : {2, 3}) save_once(folder.path(), 1, step, 7, 1);
  CHECK(inspect_folder(folder.path() / "step-00000003").state == CheckpointState::usable);
  std::vector<std::string> kept;
  for (const std::string& name : names_in(folder.path()))
    if (name.starts_with("step-00000002")) kept.push_back(file_bytes(folder.path() / name));
  CHECK(kept == std::vector<std::string>{"somebody's"});
}

TEST_CASE("pruning removes no usable state before one of those that stay is proven", "[checkpoint]") {
  ScratchFolder folder;
  for (const int64_t step : {1, 2, 3, 4}) save_once(folder.path(), 1, step, 1, 9);
  const auto at = [&](int64_t step) { return folder.path() / folder_name_of(step); };
  const auto damage = [&](int64_t step) {
    const fs::path file = at(step) / "data/model-r00000.safetensors";
    const std::string bytes = file_bytes(file);
    put_byte(file, bytes.size() - 3, static_cast<char>(bytes[bytes.size() - 3] ^ 1));
  };
  CHECK(prove_what_stays(folder.path(), RetentionPolicy(4)).empty());  // nothing goes: nothing is read
  CHECK_FALSE(inspect_folder(at(4)).verified);
  damage(4);
  damage(3);
  CHECK(prove_what_stays(folder.path(), RetentionPolicy(1)) == std::vector<fs::path>{at(4), at(3)});
  CHECK(inspect_folder(at(2)).verified);
  CHECK(prune_checkpoints(folder.path(), RetentionPolicy(1), false) == std::vector<fs::path>{at(1)});
  save_once(folder.path(), 1, 5, 1, 9);
  CHECK(prove_what_stays(folder.path(), RetentionPolicy(1)).empty());  // 2 is verified, so it stays whatever 5 is
  CHECK_FALSE(inspect_folder(at(5)).verified);
}

TEST_CASE("pruning ends, and removes nothing, whatever is wrong with the newest state", "[checkpoint]") {
  for (const std::string file : {"manifest.json", "receipts/rank-00000.json", "meta/data-version.json"}) {
    CAPTURE(file);
    for (const bool gone : {false, true}) {
      ScratchFolder folder;
      for (const int64_t step : {1, 2, 3}) save_once(folder.path(), 1, step, 1, 9);
      const fs::path newest = folder.path() / "step-00000003", path = newest / file;
      REQUIRE(fs::exists(path));
      if (gone)
        fs::remove(path);
      else
        put_byte(path, 5, static_cast<char>(file_bytes(path)[5] ^ 1));
      CHECK(prove_what_stays(folder.path(), RetentionPolicy(1)).empty());  // what stays is 2, and it is whole
      CHECK(inspect_folder(folder.path() / "step-00000002").verified);
      CHECK(prune_checkpoints(folder.path(), RetentionPolicy(1), false) ==
            std::vector<fs::path>{folder.path() / "step-00000001"});
      CHECK(fs::exists(newest));
    }
  }
}

TEST_CASE("a removal that was interrupted is finished later and is never taken for a checkpoint", "[checkpoint]") {
  ScratchFolder folder;
  save_once(folder.path(), 1, 1, 1);
  fs::copy(folder.path() / "step-00000001", folder.path() / ".trash-step-00000007-00112233",
           fs::copy_options::recursive);
  CHECK(steps_in(folder.path()) == std::vector<int64_t>{1});
  save_once(folder.path(), 1, 2, 2);
  CHECK_FALSE(fs::exists(folder.path() / ".trash-step-00000007-00112233"));
}

TEST_CASE("a checkpoint is found by run directory, folder, step and its own path", "[checkpoint]") {
  ScratchFolder run;
  const fs::path root = run.path() / "checkpoints";
  save_once(root, 1, 1, 1);
  save_once(root, 1, 2, 2);
  CHECK(choose_checkpoint(run.path(), std::nullopt).folder == root / "step-00000002");
  CHECK(choose_checkpoint(run.path(), 1).folder == root / "step-00000001");
  CHECK(choose_checkpoint(root, std::nullopt).folder == root / "step-00000002");
  CHECK(choose_checkpoint(root / "step-00000001", std::nullopt).folder == root / "step-00000001");
  CHECK_THROWS_AS(choose_checkpoint(run.path(), 3), Error);
  CHECK_THROWS_AS(choose_checkpoint(root / "step-00000001", 2), Error);
  CHECK_THROWS_AS(choose_checkpoint(run.path() / "nowhere", std::nullopt), Error);
  // A step that is not there: those that are, and the one to take, also when checkpoints/ was left out of the path.
  for (const fs::path& missing : {root / "step-00000099", root / "step-9", run.path() / "step-00000099"}) {
    const std::string instead = what_is_there_instead(missing);
    INFO(instead);
    CHECK_THAT(instead, Catch::Contains("steps 2 (usable), 1 (usable); the newest usable one is " +
                                        (root / "step-00000002").string()));
    CHECK_THROWS_WITH(choose_checkpoint(missing, std::nullopt), Catch::Contains(instead));
  }
  CHECK_THAT(what_is_there_instead(run.path() / "a/step-00000001"), Catch::Contains("is no folder either"));
  CHECK_THROWS_WITH(choose_checkpoint(run.path(), 3), Catch::Contains("it has steps 2 (usable), 1 (usable)"));
  mark_unusable(root / "step-00000002", "bad", "test", "");
  CHECK(choose_checkpoint(run.path(), std::nullopt).folder == root / "step-00000001");
  CHECK(choose_checkpoint(run.path(), std::nullopt).passed_over ==
        std::vector<std::string>{(root / "step-00000002").string() + " (unusable): marked unusable by test: bad"});
  fs::remove(root / "step-00000001/data/model-r00000.safetensors");
  CHECK_THROWS_WITH(choose_checkpoint(run.path(), std::nullopt),
                    Catch::Contains("bad") && Catch::Contains("model-r00000.safetensors is missing"));
  CHECK(choose_checkpoint(run.path(), 2).folder == root / "step-00000002");
}

TEST_CASE("diff compares logical states: layouts do not matter, single bits do", "[checkpoint]") {
  ScratchFolder a, b, c;
  save_once(a.path(), 1, 1, 1);
  save_once(b.path(), 3, 1, 1);
  const CheckpointDifference same = diff_checkpoints(a.path() / "step-00000001", b.path() / "step-00000001");
  CHECK(same.same());
  CHECK(same.compared == static_cast<int64_t>(small_model().size()));
  RankState state(small_model(), 0, 1);
  state.fill(1);
  for (StateEntry& e : state.catalog)
    if (e.name == "plain.weight" && e.role == "weight") static_cast<float*>(e.local.data())[17] += 0.5f;
  Checkpointer checkpointer = build_checkpointer({}, options_for(c.path()), state.arena(), state.catalog);
  checkpointer.save(state.catalog, scalars_at(2), SaveReason::interval);
  REQUIRE(checkpointer.wait().front().ok);
  const CheckpointDifference d = diff_checkpoints(a.path() / "step-00000001", c.path() / "step-00000002");
  REQUIRE(d.tensors.size() == 1);
  CHECK(d.tensors[0].name == "plain.weight");
  CHECK(d.tensors[0].elements == 1);
  CHECK(d.tensors[0].max_abs == Approx(0.5).epsilon(1e-6));
  CHECK(d.scalars.size() == 4);  // step, samples, tokens, loss
}

TEST_CASE("verify notes files that do not belong, and counts what it compared", "[checkpoint]") {
  ScratchFolder folder;
  save_once(folder.path(), 2, 1, 1);
  const fs::path checkpoint = folder.path() / "step-00000001";
  put_bytes(checkpoint / "README", "mine");
  const VerifyReport report = verify_checkpoint(checkpoint, true);
  CHECK(report.whole());
  CHECK(report.notes.size() == 1);
  CHECK(report.bytes == report.info.bytes);
  CHECK(report.blocks == 4);
  CHECK(verify_checkpoint(checkpoint, false).blocks == 0);
}

}  // namespace trainctl::testing
