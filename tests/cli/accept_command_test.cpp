// tests/cli/accept_command_test.cpp -- the recovery drill on a small recipe, and what it refuses.
#include <nlohmann/json.hpp>

#include "support/catch.h"
#include "support/launch_fixture.h"

namespace trainctl::testing {
namespace {

using Catch::Contains;

SubprocessResult accept(const LaunchFixture& fixture, std::vector<std::string> more, double timeout_s = 120) {
  std::vector<std::string> argv = {program("trainctl"), "accept",     fixture.recipe,  "--only",
                                   "checkpoint",        "--topology", fixture.topology};
  argv.insert(argv.end(), more.begin(), more.end());
  return run(argv, fixture.options("", timeout_s));
}

}  // namespace

TEST_CASE("the drill kills and resumes a run, changes its layout, and leaves a checkpoint that says so",
          "[cli][accept]") {
  LaunchFixture fixture(1000);
  fixture.use_real_worker();
  const std::filesystem::path folder = fixture.folder.path() / "drill";
  const SubprocessResult r = accept(
      fixture, {"--ranks", "2", "--launcher", "threads", "--folder", folder.string(), "--json", "--steps", "16"});
  INFO(r.err << r.out);
  REQUIRE(r.exit_code == 0);
  const auto report = nlohmann::json::parse(r.out);
  CHECK(report["passed"] == true);
  CHECK(report["checks"].size() == 10);
  CHECK(report["layout"] != report["other_layout"]);
  const std::filesystem::path drilled = report["drilled"].get<std::string>();
  CHECK(drilled == folder / "whole" / "checkpoints" / "step-00000008");

  const SubprocessResult list = run({program("trainctl"), "checkpoint", "list", (folder / "whole").string(), "--json"});
  const auto listed = nlohmann::json::parse(list.out);
  int marked = 0;
  for (const auto& one : listed["checkpoints"])
    if (one["drilled"] == true) {
      ++marked;
      CHECK(one["step"] == 8);
      CHECK_THAT(one["drilled_how"].get<std::string>(), Contains(report["other_layout"].get<std::string>()));
    }
  CHECK(marked == 1);

  const SubprocessResult again =
      accept(fixture, {"--ranks", "2", "--launcher", "threads", "--folder", folder.string()});
  CHECK(again.exit_code == 2);
  CHECK_THAT(again.err, Contains("is not empty"));
}

TEST_CASE("a drill that cannot be made is refused before or at its first run", "[cli][accept]") {
  LaunchFixture fixture(1000);
  fixture.use_real_worker();
  const auto folder = [&fixture](const char* name) { return (fixture.folder.path() / name).string(); };
  SECTION("no other layout") {
    const SubprocessResult r =
        accept(fixture,
               {"--ranks", "1", "--folder", folder("a"), "--set", "model.heads=1", "--set", "model.kv_heads=1", "--set",
                "model.layers=1", "--set", "parallelism.tensor_parallel=1", "--set", "runtime.micro_batch_size=null",
                "--set", "runtime.micro_batches=null", "--set", "runtime.global_batch_size=1"});
    INFO(r.err << r.out);
    CHECK(r.exit_code == 2);
    CHECK_THAT(r.err, Contains("no other layout"));
  }
  SECTION("a run that fails") {
    const SubprocessResult r =
        accept(fixture, {"--ranks", "2", "--launcher", "threads", "--folder", folder("b"), "--worker", "/bin/false"});
    INFO(r.err << r.out);
    CHECK(r.exit_code == 4);
    CHECK_THAT(r.err, Contains("the uninterrupted run did not end well") && Contains("whole.log"));
  }
  SECTION("too few steps") {
    const SubprocessResult r = accept(fixture, {"--steps", "3"});
    CHECK(r.exit_code == 2);
    CHECK_THAT(r.err, Contains("--steps"));
  }
}

}  // namespace trainctl::testing
