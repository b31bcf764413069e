// tests/unit/checkpoint/full_disk_test.cpp -- real refusals by the kernel: a full file system, a file size limit.
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "checkpoint/posix_io.h"
#include "checkpoint/scan.h"
#include "fixture.h"
#include "support/catch.h"

namespace trainctl::testing {
namespace {

namespace fs = std::filesystem;

std::vector<GlobalTensor> wide_model() {
  return {{"w", "weight", DType::f32, {256, 256}, -1, ""}, {"w", "momentum", DType::f32, {256, 256}, -1, ""}};
}

SaveOutcome save_step(const fs::path& folder, int64_t step, const std::function<void(SavePoint)>& on_point,
                      int64_t ballast, const std::string& io) {
  RankState state(wide_model(), 0, 1);
  state.fill(static_cast<uint32_t>(step));
  CheckpointerOptions options = options_for(folder);
  options.free_space_margin_bytes = 0;
  options.ballast_bytes = ballast;
  options.on_point = on_point;
  CheckpointConfig config;
  config.io = io;
  Checkpointer c = build_checkpointer(config, std::move(options), state.arena(), state.catalog);
  c.save(state.catalog, scalars_at(step), SaveReason::interval);
  return c.wait().front();
}

void fill_up(const fs::path& file) {
  std::string chunk(1 << 12, 'x');
  FILE* out = std::fopen(file.c_str(), "wb");
  std::setvbuf(out, nullptr, _IONBF, 0);
  while (std::fwrite(chunk.data(), 1, chunk.size(), out) == chunk.size()) {
  }
  std::fclose(out);
}

}  // namespace

TEST_CASE("a write that the kernel refuses fails the save and nothing else", "[checkpoint]") {
  const std::string io = GENERATE(from_range(io_paths()));
  CAPTURE(io);
  ScratchFolder folder;
  REQUIRE(save_step(folder.path(), 1, {}, 0, io).ok);
  const pid_t child = ::fork();
  if (child == 0) {  // no test macros here
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {100'000, 100'000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const SaveOutcome outcome = save_step(folder.path(), 2, {}, 0, io);
    const bool as_expected = !outcome.ok && outcome.reason.find("File too large") != std::string::npos &&
                             outcome.reason.find("model-r00000.safetensors") != std::string::npos;
    ::_exit(as_expected ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(scan_checkpoints(folder.path()).size() == 1);
  CHECK(save_step(folder.path(), 3, {}, 0, io).ok);
  CHECK(names_in(folder.path() / ".staging").empty());
}

TEST_CASE("a really full file system fails the save with its cause and leaves the older checkpoint", "[checkpoint]") {
  const std::string io = GENERATE(from_range(io_paths()));
  CAPTURE(io);
  ScratchFolder scratch;
  const fs::path disk = scratch.path() / "disk";
  fs::create_directory(disk);
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=3m") != 0) {
    WARN("skipped: a small file system cannot be mounted here (needs root)");
    return;
  }
  struct Unmount {
    fs::path at;
    ~Unmount() { ::umount2(at.c_str(), MNT_DETACH); }
  } unmount{disk};
  const fs::path folder = disk / "checkpoints";
  REQUIRE(save_step(folder, 1, {}, 64 << 10, io).ok);
  REQUIRE(fs::exists(folder / "ballast"));
  // Full from the start: refused before anything is written.
  fill_up(disk / "filler");
  const SaveOutcome skipped = save_step(folder, 2, {}, 64 << 10, io);
  CHECK((skipped.skipped && !skipped.ok));
  CHECK(skipped.reason.find(" free at ") != std::string::npos);
  fs::remove(disk / "filler");
  // Full at every later moment of the protocol before the commit.
  for (int p = 0; p < static_cast<int>(SavePoint::published); ++p) {
    CAPTURE(p);
    const SaveOutcome outcome = save_step(
        folder, 2,
        [&](SavePoint point) {
          if (static_cast<int>(point) == p) fill_up(disk / "filler");
        },
        64 << 10, io);
    // Data is reserved beforehand, and small records may still fit into a last page: it fails, or it is whole.
    if (outcome.ok) {
      CHECK(inspect_folder(folder / "step-00000002").state == CheckpointState::usable);
      fs::remove_all(folder / "step-00000002");
    } else {
      CHECK(outcome.reason.find("No space left") != std::string::npos);
      CHECK_FALSE(fs::exists(folder / "step-00000002"));
    }
    if (p == static_cast<int>(SavePoint::created)) CHECK_FALSE(outcome.ok);
    CHECK(inspect_folder(folder / "step-00000001").state == CheckpointState::usable);
    fs::remove(disk / "filler");
  }
  CHECK(save_step(folder, 3, {}, 64 << 10, io).ok);
}

}  // namespace trainctl::testing
