// tests/unit/checkpoint/file_limit_test.cpp -- a real refusal by the kernel: a file size limit.
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

SaveOutcome save_step(const fs::path& folder, int64_t step, const std::string& io) {
  RankState state(wide_model(), 0, 1);
  state.fill(static_cast<uint32_t>(step));
  CheckpointerOptions options = options_for(folder);
  options.free_space_margin_bytes = 0;
  options.ballast_bytes = 0;
  CheckpointConfig config;
  config.io = io;
  Checkpointer c = build_checkpointer(config, std::move(options), state.arena(), state.catalog);
  c.save(state.catalog, scalars_at(step), SaveReason::interval);
  return c.wait().front();
}

}  // namespace

TEST_CASE("a write that the kernel refuses fails the save and nothing else", "[checkpoint]") {
  const std::string io = GENERATE(from_range(io_paths()));
  CAPTURE(io);
  ScratchFolder folder;
  REQUIRE(save_step(folder.path(), 1, io).ok);
  const pid_t child = ::fork();
  if (child == 0) {  // no test macros here
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {100'000, 100'000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const SaveOutcome outcome = save_step(folder.path(), 2, io);
    const bool as_expected = !outcome.ok && outcome.reason.find("File too large") != std::string::npos &&
                             outcome.reason.find("model-r00000.safetensors") != std::string::npos;
    ::_exit(as_expected ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(scan_checkpoints(folder.path()).size() == 1);
  CHECK(save_step(folder.path(), 3, io).ok);
  CHECK(names_in(folder.path() / ".staging").empty());
}

}  // namespace trainctl::testing
