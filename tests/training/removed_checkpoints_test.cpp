// tests/training/removed_checkpoints_test.cpp -- a user takes the newest checkpoints of a run away by hand.
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "support/catch.h"
#include "support/launch_fixture.h"

namespace trainctl::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

SubprocessResult launch(const LaunchFixture& fixture, int64_t steps, std::vector<std::string> more = {}) {
  std::vector<std::string> all = {"--ranks",    "2",
                                  "--launcher", "threads",
                                  "--set",      "optimizer.schedule.kind=constant",
                                  "--set",      "data.log_samples=true",
                                  "--set",      "checkpoint.every_steps=2",
                                  "--set",      "checkpoint.keep=10",
                                  "--set",      "checkpoint.async=false",
                                  "--set",      "runtime.steps=" + std::to_string(steps)};
  all.insert(all.end(), more.begin(), more.end());
  return fixture.launch(all, "", 60);
}

// (loss, norm) by step of metrics.jsonl; every step must be there once, in order.
std::map<int64_t, std::pair<double, double>> metrics(const LaunchFixture& fixture) {
  std::map<int64_t, std::pair<double, double>> values;
  std::istringstream lines(read_text(fixture.run_dir() / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const json j = json::parse(line);
    CHECK(j.at("step") == std::ssize(values) + 1);
    values[j.at("step")] = {j.at("loss"), j.at("grad_norm")};
  }
  return values;
}

}  // namespace

TEST_CASE("when the newest two step folders were deleted by hand, the run says so and goes on from the newest left",
          "[training][resume]") {
  LaunchFixture fixture(8);
  fixture.use_real_worker();
  REQUIRE(launch(fixture, 8).exit_code == 0);
  const auto first = metrics(fixture);
  const std::string samples = read_text(fixture.run_dir() / "samples.jsonl");
  const fs::path checkpoints = fixture.run_dir() / "checkpoints";
  REQUIRE(fs::remove_all(checkpoints / "step-00000008") > 0);
  REQUIRE(fs::remove_all(checkpoints / "step-00000006") > 0);

  // Another learning rate from there on: what was superseded is told from what stays.
  const SubprocessResult other = launch(fixture, 8, {"--set", "optimizer.lr=0.002"});
  INFO(other.out << other.err);
  REQUIRE(other.exit_code == 0);
  CHECK_THAT(other.err, Catch::Contains("step-00000008: LATEST names it, and it is not there any more") &&
                            Catch::Contains("continues after step 4"));
  const auto second = metrics(fixture);
  REQUIRE(second.size() == 8);
  for (int64_t step = 1; step <= 8; ++step) {
    INFO("step " << step);
    CHECK((second.at(step) == first.at(step)) == (step <= 5));  // the loss of step 5 comes before its update
  }
  CHECK(read_text(fixture.run_dir() / "samples.jsonl") == samples);
  CHECK(fs::exists(checkpoints / "step-00000008/COMMITTED"));

  // And with the learning rate of before, the bits of before.
  fs::remove_all(checkpoints / "step-00000008");
  fs::remove_all(checkpoints / "step-00000006");
  REQUIRE(launch(fixture, 8).exit_code == 0);
  CHECK(metrics(fixture) == first);
  const SubprocessResult nothing = launch(fixture, 8);
  CHECK_THAT(nothing.out, Catch::Contains("nothing to do"));
  CHECK_THAT(nothing.err, !Catch::Contains("LATEST"));
}

TEST_CASE("a run whose checkpoints are all gone does not start anew by itself", "[training][resume]") {
  LaunchFixture fixture(8);
  fixture.use_real_worker();
  REQUIRE(launch(fixture, 4).exit_code == 0);
  const auto before = metrics(fixture);
  const fs::path checkpoints = fixture.run_dir() / "checkpoints", elsewhere = fixture.folder.path() / "elsewhere";
  fs::rename(checkpoints, elsewhere);
  const auto refuses = [&] {
    const SubprocessResult r = launch(fixture, 6);
    INFO(r.out << r.err);
    CHECK(r.exit_code == 5);
    CHECK_THAT(r.err, Catch::Contains("but the run saved one of step 4") && Catch::Contains("--run-dir"));
    CHECK(metrics(fixture) == before);
  };
  refuses();
  fs::create_directory(checkpoints);  // where another disk was mounted
  refuses();
  fs::create_directories(checkpoints / ".staging");
  refuses();
  fs::remove_all(checkpoints);

  SECTION("put back, they are gone on from") {
    fs::rename(elsewhere, checkpoints);
    const SubprocessResult r = launch(fixture, 6);
    CHECK(r.exit_code == 0);
    CHECK_THAT(r.err, Catch::Contains("continues after step 4"));
    CHECK(metrics(fixture).size() == 6);
  }
  SECTION("named where they are now, they are gone on from") {
    const SubprocessResult r = launch(fixture, 6, {"--resume", elsewhere.string()});
    CHECK(r.exit_code == 0);
    CHECK_THAT(r.err, Catch::Contains("continues after step 4"));
    CHECK(metrics(fixture).size() == 6);
  }
}

TEST_CASE("a run directory that was moved goes on where it is", "[training][resume]") {
  LaunchFixture fixture(6);
  fixture.use_real_worker();
  REQUIRE(launch(fixture, 4).exit_code == 0);
  fs::create_directories(fixture.folder.path() / "elsewhere");
  const fs::path moved = fixture.folder.path() / "elsewhere/other name";
  fs::rename(fixture.run_dir(), moved);
  const SubprocessResult r = launch(fixture, 6, {"--run-dir", moved.string()});
  INFO(r.out << r.err);
  REQUIRE(r.exit_code == 0);
  CHECK_THAT(r.err, Catch::Contains("continues after step 4 from " + moved.string()));
  CHECK_FALSE(fs::exists(fixture.run_dir()));
  const SubprocessResult verified = run({program("trainctl"), "checkpoint", "verify", "--full", moved.string()});
  INFO(verified.out << verified.err);
  CHECK(verified.exit_code == 0);
}

}  // namespace trainctl::testing
