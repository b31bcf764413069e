// tests/fault/slow_save_test.cpp -- saves that last several times runtime.watchdog_s: no rank is taken for hung, and a
// save ends as it should or by its own deadline, in its own words.
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "support/catch.h"
#include "support/launch_fixture.h"

namespace trainctl::testing {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;

constexpr int64_t kSteps = 30;

// The watchdog ends a run after two seconds without progress; a save takes about five.
class SlowRun {
 public:
  // `slow_sync`: of SLOW_SYNC; empty: the disk is quick.
  SlowRun(const std::string& launcher, const std::string& slow_sync, const std::vector<std::string>& settings)
      : launcher_(launcher), settings_(settings), fixture_(std::make_unique<LaunchFixture>(kSteps)) {
    fixture_->use_real_worker_after("export LD_PRELOAD=" + program("libtrainctl_slow_sync.so"));
    process_ = start({}, slow_sync);
  }

  SubprocessResult end() {
    SubprocessResult r = process_->wait();
    INFO(r.out << r.err);
    CHECK_THAT(r.out + r.err, !Contains("hang") && !Contains("has not finished for"));
    for (const auto& report : fs::directory_iterator(fixture_->run_dir() / "errors"))
      CHECK_THAT(read_text(report.path()), !Contains("hang"));
    std::istringstream lines(read_text(fixture_->run_dir() / "metrics.jsonl"));
    int64_t steps = 0;
    for (std::string line; std::getline(lines, line);) ++steps;
    CHECK(steps == kSteps);
    return r;
  }

  // The same command once more, with some settings more.
  SubprocessResult again(const std::vector<std::string>& settings, const std::string& slow_sync = "") const {
    return start(settings, slow_sync)->wait();
  }

  // Steps whose checkpoints are whole, newest first.
  std::vector<int64_t> whole() const {
    std::vector<int64_t> steps;
    const SubprocessResult list =
        run({program("trainctl"), "checkpoint", "list", fixture_->run_dir().string(), "--json", "--closely"});
    const auto listed = nlohmann::json::parse(list.out);
    for (const auto& one : listed["checkpoints"]) {
      const SubprocessResult r =
          run({program("trainctl"), "checkpoint", "verify", "--full", one["folder"].get<std::string>()});
      INFO(r.out << r.err);
      CHECK(r.exit_code == 0);
      steps.push_back(one["step"].get<int64_t>());
    }
    return steps;
  }

 private:
  std::unique_ptr<Subprocess> start(const std::vector<std::string>& settings, const std::string& slow_sync) const {
    std::vector<std::string> more = {"--ranks",    "2",
                                     "--launcher", launcher_,
                                     "--set",      "runtime.watchdog_s=2",
                                     "--set",      "checkpoint.keep=10",
                                     "--set",      "optimizer.schedule.kind=constant"};
    for (const auto* list : {&settings_, &settings})
      for (const std::string& s : *list) more.insert(more.end(), {"--set", s});
    SubprocessOptions options = fixture_->options("", 90);
    options.environment.push_back({"SLOW_SYNC", slow_sync});
    return std::make_unique<Subprocess>(fixture_->command(more), options);
  }

  std::string launcher_;
  std::vector<std::string> settings_;
  std::unique_ptr<LaunchFixture> fixture_;
  std::unique_ptr<Subprocess> process_;
};

// Of each rank some 0.8 MB, in two files.
const std::string kThrottled = "checkpoint.write_limit_bytes_per_s=160000";
const std::string kRank0 = "-r00000.safetensors 2.5", kRank1 = "-r00001.safetensors 1.5";

std::vector<std::string> one_save(std::vector<std::string> more) {
  more.insert(more.end(), {"checkpoint.every_steps=20", "checkpoint.at_end=false"});
  return more;
}

}  // namespace

TEST_CASE(
    "a save that outlasts the watchdog is no hang, beside training and before it, on all ranks or on rank 0 alone",
    "[fault][slow-save]") {
  // All at once: they mostly sleep.
  const std::string sync = "checkpoint.async=false";
  SlowRun throttled("threads", "", one_save({kThrottled})), throttled_sync("threads", "", one_save({kThrottled, sync}));
  SlowRun rank0("mpirun", kRank0, one_save({})), rank0_sync("threads", kRank0, one_save({sync}));
  for (SlowRun* one : {&throttled, &throttled_sync, &rank0, &rank0_sync}) {
    const SubprocessResult r = one->end();
    INFO(r.out << r.err);
    CHECK(r.exit_code == 0);
    CHECK(one->whole() == std::vector<int64_t>{20});
  }
}

TEST_CASE("a rank too slow for checkpoint.deadline_s fails the save by name, and neither the run nor its older states",
          "[fault][slow-save]") {
  SlowRun async("mpirun", kRank1, one_save({"checkpoint.deadline_s=1"}));
  SlowRun last("threads", "", {"checkpoint.deadline_s=1"});  // the disk gets slow later
  CHECK(last.end().exit_code == 0);
  const SubprocessResult unsaved = last.again({"runtime.steps=50"}, kRank1);
  INFO(unsaved.out << unsaved.err);
  CHECK(unsaved.exit_code == 3);  // the disk's fault, not that of a rank that hangs
  CHECK_THAT(unsaved.err, Contains("the state after step 50 could not be saved") &&
                              Contains("no receipt after 1 s (checkpoint.deadline_s) from rank 1") &&
                              !Contains("hang"));
  CHECK(last.whole() == std::vector<int64_t>{kSteps});

  const SubprocessResult r = async.end();
  INFO(r.out << r.err);
  CHECK(r.exit_code == 0);
  CHECK_THAT(r.err, Contains("checkpoint of step 20 failed: rank 0: no receipt after 1 s (checkpoint.deadline_s) from "
                             "rank 1"));
  CHECK(async.whole().empty());
}

}  // namespace trainctl::testing
