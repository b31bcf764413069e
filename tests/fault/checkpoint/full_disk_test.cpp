// tests/fault/checkpoint/full_disk_test.cpp -- a really full file system, at every moment of a save.
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/units.h"
#include "checkpoint/posix_io.h"
#include "checkpoint/scan.h"
#include "fault/checkpoint/campaign.h"
#include "support/catch.h"
#include "support/runner.h"
#include "unit/checkpoint/fixture.h"

namespace trainctl::testing {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kBallast = 64 << 10;

// A file system of its own, of a few megabytes; unmounted at the end.
class SmallDisk {
 public:
  SmallDisk() : path_(scratch_.path() / "disk") {
    fs::create_directory(path_);
    if (::mount("tmpfs", path_.c_str(), "tmpfs", 0, "size=3m") != 0) refusal_ = std::strerror(errno);
  }
  ~SmallDisk() {
    if (refusal_.empty()) ::umount2(path_.c_str(), MNT_DETACH);
  }
  const fs::path& path() const { return path_; }
  const std::string& refusal() const { return refusal_; }  // "" when it is mounted

  void fill_up() const {
    const std::string page(1 << 12, 'x');
    FILE* out = std::fopen((path_ / "filler").c_str(), "wb");
    std::setvbuf(out, nullptr, _IONBF, 0);
    while (std::fwrite(page.data(), 1, page.size(), out) == page.size()) {
    }
    std::fclose(out);
  }
  void make_room() const { fs::remove(path_ / "filler"); }

 private:
  ScratchFolder scratch_;
  fs::path path_;
  std::string refusal_;
};

std::vector<GlobalTensor> wide_model() {
  return {{"w", "weight", DType::f32, {256, 256}, 0, ""}, {"w", "momentum", DType::f32, {256, 256}, 0, ""}};
}

// A run of `world` ranks that saves steps 1, 2, 3 with one checkpointer each; `at` fills the disk during step 2 (on
// rank 0, after this point), and after the save of step 2 there is room again. Outcomes by step and rank.
std::vector<std::vector<SaveOutcome>> run_with_full_disk(const SmallDisk& disk, int64_t world, SavePoint at) {
  std::vector<std::vector<SaveOutcome>> outcomes(3, std::vector<SaveOutcome>(static_cast<size_t>(world)));
  ThreadWorld ranks(world);
  on_ranks(world, [&](int64_t r) {
    RankState state(wide_model(), r, world);
    int64_t step = 0;
    CheckpointerOptions options = options_for(disk.path() / "checkpoints", ranks.agreement(r));
    options.free_space_margin_bytes = 0;
    options.ballast_bytes = kBallast;
    options.on_point = [&](SavePoint point) {
      if (r == 0 && step == 2 && point == at) disk.fill_up();
    };
    CheckpointConfig config;
    config.deadline_s = 20;
    Checkpointer c = build_checkpointer(config, std::move(options), state.arena(), state.catalog);
    for (step = 1; step <= 3; ++step) {
      state.fill(static_cast<uint32_t>(step));
      c.save(state.catalog, scalars_at(step), SaveReason::interval);
      outcomes[static_cast<size_t>(step - 1)][static_cast<size_t>(r)] = c.wait().front();
      ranks.agreement(r).all_agree(true);
      if (r == 0 && step == 2) {
        fs::remove_all(disk.path() / "found");  // what the failed save left
        const auto left = names_in(disk.path() / "checkpoints" / ".staging");
        disk.make_room();
        if (left.size() == 1)
          fs::copy(disk.path() / "checkpoints" / ".staging" / left[0], disk.path() / "found",
                   fs::copy_options::recursive);
      }
      ranks.agreement(r).all_agree(true);
    }
  });
  return outcomes;
}

std::string restored(const fs::path& folder, int64_t step) {
  RankState state(wide_model(), 0, 1);
  Checkpointer c = build_checkpointer({}, options_for(folder), state.arena(), state.catalog);
  const RestoreResult result = c.restore(state.catalog);
  if (result.step != step) return fmt::format("step {}", result.step);
  return state.difference(static_cast<uint32_t>(step));
}

}  // namespace

TEST_CASE("a disk that fills up during a save fails it with the cause written down, and the run goes on",
          "[fault][checkpoint]") {
  int64_t tried = 0;
  for (const int64_t world : {1, 2})
    for (int p = 0; p < static_cast<int>(SavePoint::committed); ++p) {
      CAPTURE(world, p);
      const SmallDisk disk;
      REQUIRE(disk.refusal() == "");
      const fs::path folder = disk.path() / "checkpoints";
      const auto outcomes = run_with_full_disk(disk, world, static_cast<SavePoint>(p));
      for (const SaveOutcome& o : outcomes[0]) CHECK((o.ok && o.reason.empty()));
      for (const SaveOutcome& o : outcomes[1]) {
        CHECK_FALSE(o.ok);
        CHECK(o.reason.find("rank ") != std::string::npos);
        CHECK(o.reason.find("No space left") != std::string::npos);
        CHECK(o.reason.find(folder.string()) != std::string::npos);
      }
      for (const SaveOutcome& o : outcomes[2]) CHECK((o.ok && o.reason.empty()));
      const fs::path mark = disk.path() / "found" / kUnusableName;
      REQUIRE(fs::exists(mark));
      CHECK(unusable_from_text(file_bytes(mark), "UNUSABLE").reason == outcomes[1][0].reason);
      CHECK_FALSE(fs::exists(disk.path() / "found" / "data"));
      CHECK(inspect_folder(folder / folder_name_of(1)).state == CheckpointState::usable);
      CHECK_FALSE(fs::exists(folder / folder_name_of(2)));
      CHECK(restored(folder, 3) == "");
      CHECK(names_in(folder / ".staging").empty());
      CHECK(regular_file_bytes(folder / "ballast") == kBallast);  // laid anew
      ++tried;
    }
  report_result("a disk that fills up during a save (moments, 1 and 2 ranks)", tried, tried);
}

TEST_CASE("a disk that is full from the start refuses the save before anything is written", "[fault][checkpoint]") {
  const SmallDisk disk;
  REQUIRE(disk.refusal() == "");
  const fs::path folder = disk.path() / "checkpoints";
  RankState state(wide_model(), 0, 1);
  CheckpointerOptions options = options_for(folder);
  options.free_space_margin_bytes = 0;
  options.ballast_bytes = kBallast;
  Checkpointer c = build_checkpointer({}, std::move(options), state.arena(), state.catalog);
  const auto save = [&](int64_t step) {
    state.fill(static_cast<uint32_t>(step));
    c.save(state.catalog, scalars_at(step), SaveReason::interval);
    return c.wait().front();
  };
  CHECK(save(1).ok);
  disk.fill_up();
  const SaveOutcome skipped = save(2);
  CHECK((skipped.skipped && !skipped.ok));
  CHECK(skipped.reason.find(" free at " + folder.string()) != std::string::npos);
  CHECK(restored(folder, 1) == "");
  disk.make_room();
  CHECK(save(3).ok);
  CHECK(restored(folder, 3) == "");
}

}  // namespace trainctl::testing

int main(int argc, char** argv) {
  if (const std::string refusal = trainctl::testing::SmallDisk().refusal(); !refusal.empty()) {
    std::printf("SKIPPED: a small file system cannot be mounted here (needs root): %s\n", refusal.c_str());
    return 77;
  }
  return trainctl::testing::run_tests(argc, argv);
}
