// tests/unit/checkpoint/pin_race_test.cpp -- a pin while a run takes checkpoints away: pinned means kept.
#include <atomic>
#include <thread>

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

std::string trash_name(int64_t step) { return ".trash-" + folder_name_of(step) + "-0123abcd"; }

}  // namespace

TEST_CASE("a pin beside a removal keeps the checkpoint, or is refused because it is gone", "[checkpoint][pin-race]") {
  ScratchFolder folder;
  const fs::path master = folder.path() / "master", run = folder.path() / "run";
  for (const int64_t step : {1, 2}) save_once(master, 1, step, 1, 9);
  int64_t kept = 0, refused = 0;
  for (uint64_t trial = 0; trial < 200; ++trial) {
    CAPTURE(trial);
    fs::remove_all(run);
    fs::copy(master, run, fs::copy_options::recursive);
    const fs::path wanted = run / folder_name_of(1);
    std::atomic<bool> go{false};
    std::string why_not, removal;
    // Either side first, by up to a millisecond.
    const auto wait_ns = [trial](uint64_t side) { return philox(8, trial, side)[0] % 1'000'000; };
    std::thread pinning([&] {
      while (!go) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::nanoseconds(wait_ns(0)));
      try {
        pin_checkpoint(wanted, "wanted");
      } catch (const Error& e) {
        why_not = e.what();
      }
    });
    std::thread removing([&] {
      while (!go) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::nanoseconds(wait_ns(1)));
      try {
        apply_retention(run, RetentionPolicy(1));
      } catch (const Error& e) {  // the pin's temporary file came into the folder while it was emptied
        removal = e.what();
      }
    });
    go = true;
    pinning.join();
    removing.join();
    const CheckpointInfo left = inspect_folder(wanted);
    CAPTURE(why_not, removal);
    if (why_not.empty()) {
      ++kept;
      CHECK(left.pinned);
      CHECK(left.state == CheckpointState::usable);
    } else {
      ++refused;
      CHECK_FALSE(fs::exists(wanted));
      CHECK(why_not.find("was removed while it was being pinned") != std::string::npos);
    }
    empty_trash(run);
    for (const std::string& name : names_in(run)) CHECK_FALSE(name.starts_with(".trash-"));
    CHECK(fs::exists(wanted) == why_not.empty());
  }
  CHECK(kept > 0);
  CHECK(refused > 0);
}

TEST_CASE("a process that died between the rename and the look for a pin loses no pinned checkpoint", "[checkpoint]") {
  ScratchFolder folder;
  const fs::path run = folder.path();
  for (const int64_t step : {1, 2, 3, 4}) save_once(run, 1, step, 1, 9);
  for (const int64_t step : {1, 2, 3}) {
    if (step != 2) pin_checkpoint(run / folder_name_of(step), "wanted");
    fs::rename(run / folder_name_of(step), run / trash_name(step));
  }
  fs::remove(run / trash_name(3) / "COMMITTED");  // it died later: this one was not pinned when it looked
  empty_trash(run);
  const CheckpointInfo back = inspect_folder(run / folder_name_of(1));
  CHECK(back.state == CheckpointState::usable);
  CHECK(back.pinned);
  CHECK(names_in(run).size() ==
        2 + static_cast<size_t>(fs::exists(run / "LATEST")) + 1 + 1);  // steps, .staging, ballast
  for (const int64_t step : {2, 3}) CHECK_FALSE(fs::exists(run / folder_name_of(step)));
}

TEST_CASE("a pinned folder without a commit is kept aside when its step is saved", "[checkpoint]") {
  ScratchFolder folder;
  save_once(folder.path(), 1, 1, 1, 9);
  const fs::path step = folder.path() / folder_name_of(1);
  fs::remove(step / "COMMITTED");
  pin_checkpoint(step, "evidence");
  save_once(folder.path(), 1, 1, 2, 9);
  CHECK(inspect_folder(step).state == CheckpointState::usable);
  int64_t aside = 0;
  for (const std::string& name : names_in(folder.path()))
    aside += name.starts_with(".superseded-") && is_pinned(folder.path() / name);
  CHECK(aside == 1);
}

}  // namespace trainctl::testing
