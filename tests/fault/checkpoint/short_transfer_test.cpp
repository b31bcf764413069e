// tests/fault/checkpoint/short_transfer_test.cpp -- a kernel that transfers a part, is interrupted, or lies: this
// program's own pwrite, write and pread stand in front of the C library's.
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "base/error.h"
#include "checkpoint/scan.h"
#include "checkpoint/verify.h"
#include "support/catch.h"
#include "unit/checkpoint/fixture.h"

namespace trainctl::testing {
namespace {

// What the calls do: 0 as asked; n > 0: at most n bytes at a time, and every other call is interrupted.
std::atomic<size_t> largest_transfer = 0;
std::atomic<int64_t> lie_at = -1;  // the pwrite of this number (from 0) says it is done, and does nothing
std::atomic<int64_t> calls = 0, positioned_writes = 0;

bool is_interrupted() { return largest_transfer > 0 && calls++ % 2 == 0; }
size_t allowed(size_t bytes) { return largest_transfer > 0 ? std::min<size_t>(bytes, largest_transfer) : bytes; }

// Steps 1 to `last` in one run, through the page cache: by the calls below, not by io_uring. Step `lied_about` meets
// lie_at.
void save_steps(const std::filesystem::path& folder, int64_t last, int64_t lied_about, int64_t lost_write) {
  RankState state(small_model(), 0, 1);
  CheckpointConfig config;
  config.io = "buffered";
  Checkpointer c = build_checkpointer(config, options_for(folder), state.arena(), state.catalog);
  for (int64_t step = 1; step <= last; ++step) {
    state.fill(static_cast<uint32_t>(step));
    positioned_writes = 0;
    lie_at = step == lied_about ? lost_write : -1;
    c.save(state.catalog, scalars_at(step), SaveReason::interval);
    const bool ok = c.wait().front().ok;
    lie_at = -1;
    if (!ok) throw std::runtime_error("not saved");
  }
}

ssize_t interrupted() {
  errno = EINTR;
  return -1;
}

}  // namespace
}  // namespace trainctl::testing

using namespace trainctl::testing;

extern "C" ssize_t pwrite(int fd, const void* data, size_t bytes, off_t offset) {
  if (is_interrupted()) return interrupted();
  if (positioned_writes++ == lie_at) return static_cast<ssize_t>(bytes);
  return ::syscall(SYS_pwrite64, fd, data, allowed(bytes), offset);
}
extern "C" ssize_t write(int fd, const void* data, size_t bytes) {
  return is_interrupted() && fd > 2 ? interrupted() : ::syscall(SYS_write, fd, data, fd > 2 ? allowed(bytes) : bytes);
}
extern "C" ssize_t pread(int fd, void* data, size_t bytes, off_t offset) {
  return is_interrupted() ? interrupted() : ::syscall(SYS_pread64, fd, data, allowed(bytes), offset);
}

namespace trainctl::testing {

TEST_CASE("transfers of a few bytes with interruptions between them give the same checkpoint", "[fault][checkpoint]") {
  for (const size_t most : {1, 7, 1000}) {
    ScratchFolder folder;
    largest_transfer = most;
    calls = 0;
    save_steps(folder.path(), 1, -1, -1);
    RankState state(small_model(), 0, 1);
    Checkpointer c = build_checkpointer({}, options_for(folder.path()), state.arena(), state.catalog);
    const RestoreResult result = c.restore(state.catalog);
    largest_transfer = 0;
    CAPTURE(most);
    CHECK(calls > 100);
    CHECK(result.step == 1);
    CHECK(state.difference(1) == "");
    CHECK(verify_checkpoint(result.folder, true).whole());
  }
}

TEST_CASE("a write that the kernel claims and loses is found before it is used, and the run falls back",
          "[fault][checkpoint]") {
  ScratchFolder whole;
  save_steps(whole.path(), 1, -1, -1);
  const int64_t writes = positioned_writes;
  REQUIRE(writes >= 2);
  for (int64_t lost = 0; lost < writes; ++lost) {
    ScratchFolder folder;
    save_steps(folder.path(), 2, 2, lost);
    CAPTURE(lost);
    const std::filesystem::path second = folder.path() / folder_name_of(2);
    CHECK_FALSE(verify_checkpoint(second, true).whole());
    RankState state(small_model(), 0, 1);
    Checkpointer c = build_checkpointer({}, options_for(folder.path()), state.arena(), state.catalog);
    CHECK(c.restore(state.catalog).step == 1);
    CHECK(state.difference(1) == "");
    CHECK(inspect_folder(second).state == CheckpointState::unusable);  // nobody tries it again
  }
}

}  // namespace trainctl::testing
