// tests/unit/checkpoint/io_refusals_test.cpp -- kernels and file systems that really refuse io_uring or O_DIRECT.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "fixture.h"
#include "support/catch.h"

namespace trainctl::testing {
namespace {

namespace fs = std::filesystem;

// This process's `call` answers with `code` from now on; false when the kernel has no seccomp.
bool refuse_call(long call, int code) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<__u32>(call), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<__u32>(code)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog filter = {sizeof program / sizeof *program, program};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// How one save and one load went in `folder`; "" when something came back different.
std::string round_trip(const fs::path& folder) {
  RankState state(small_model(), 0, 1);
  state.fill(3);
  Checkpointer c = build_checkpointer({}, options_for(folder), state.arena(), state.catalog);
  c.save(state.catalog, scalars_at(1), SaveReason::interval);
  const SaveOutcome outcome = c.wait().front();
  state.wipe();
  if (!outcome.ok || !c.restore(state.catalog).found || !state.difference(3).empty()) return outcome.reason;
  return outcome.io_path;
}

}  // namespace

TEST_CASE("where the kernel refuses io_uring, at set-up or at its first use, threads do the work", "[checkpoint]") {
  for (const auto& [call, code] : {std::pair{SYS_io_uring_setup, EPERM}, std::pair{SYS_io_uring_setup, ENOSYS},
                                   std::pair{SYS_io_uring_enter, EPERM}}) {
    CAPTURE(call, code);
    ScratchFolder folder(true);
    const pid_t child = ::fork();
    if (child == 0) {  // no test macros here
      if (!refuse_call(call, code)) ::_exit(77);
      const std::string path = round_trip(folder.path());
      // A build without liburing says that instead.
      const bool says = path.find(std::strerror(code)) != std::string::npos ||
                        path.find("this build has no io_uring") != std::string::npos;
      ::_exit(says && path.starts_with("pread/pwrite, ") ? 0 : 1);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
      WARN("skipped: seccomp is not available here");
    else
      CHECK(WEXITSTATUS(status) == 0);
  }
}

TEST_CASE("a process that may have no more threads fails its saves, with the reason, and lives", "[checkpoint]") {
  for (const bool lazy : {false, true}) {
    ScratchFolder folder;
    const pid_t child = ::fork();
    if (child == 0) {  // no test macros here
      RankState state(small_model(), 0, 1);
      CheckpointConfig config;
      config.copy = lazy ? "lazy" : "blocking";
      Checkpointer c = build_checkpointer(config, options_for(folder.path()), state.arena(), state.catalog);
      if (!refuse_call(SYS_clone3, EAGAIN) || !refuse_call(SYS_clone, EAGAIN)) ::_exit(77);
      for (const int64_t step : {1, 2}) {
        c.save(state.catalog, scalars_at(step), SaveReason::interval);
        c.wait_copied();
        const SaveOutcome outcome = c.wait().at(0);
        if (outcome.ok || outcome.step != step || outcome.reason.find("no thread to write with") == std::string::npos)
          ::_exit(1);
      }
      ::_exit(fs::exists(folder.path() / "LATEST") ? 2 : 0);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
      WARN("skipped: seccomp is not available here");
    else
      CHECK(WEXITSTATUS(status) == 0);
  }
}

TEST_CASE("on a file system without O_DIRECT the page cache serves", "[checkpoint]") {
  ScratchFolder scratch;
  const fs::path disk = scratch.path() / "disk";
  fs::create_directory(disk);
  if (::mount("ramfs", disk.c_str(), "ramfs", 0, nullptr) != 0) {
    WARN("skipped: ramfs cannot be mounted here (needs root)");
    return;
  }
  struct Unmount {
    fs::path at;
    ~Unmount() { ::umount2(at.c_str(), MNT_DETACH); }
  } unmount{disk};
  RankState state(small_model(), 0, 1);
  state.fill(3);
  CheckpointerOptions options = options_for(disk / "checkpoints");
  options.free_space_margin_bytes = -(int64_t{1} << 40);  // ramfs says that nothing is free
  Checkpointer c = build_checkpointer({}, std::move(options), state.arena(), state.catalog);
  c.save(state.catalog, scalars_at(1), SaveReason::interval);
  const SaveOutcome outcome = c.wait().front();
  CHECK(outcome.reason == "");
  CHECK(outcome.io_path.find("page cache (") != std::string::npos);
  CHECK(outcome.io_path.find("O_DIRECT is refused") != std::string::npos);
  state.wipe();
  const RestoreResult result = c.restore(state.catalog);
  CHECK(result.cost.io_path.find("page cache") != std::string::npos);
  CHECK(state.difference(3) == "");
}

}  // namespace trainctl::testing
