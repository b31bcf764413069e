// tests/support/local_runs.h -- whole runs of a small recipe, each in one process, by the words of the command line.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/launch_fixture.h"

namespace trainctl::testing {

class Runs {
 public:
  Runs() : fixture_(1) { fixture_.use_real_worker(); }

  // In one process, one rank; 4 steps unless said otherwise; evaluations as often.
  SubprocessResult launch(const std::string& run_dir, const std::vector<std::string>& more) const {
    std::vector<std::string> argv = {program("trainctl"),
                                     "launch",
                                     fixture_.recipe,
                                     "--topology",
                                     fixture_.topology,
                                     "--launcher",
                                     "threads",
                                     "--oversubscribe",
                                     "--threads-per-rank",
                                     "1",
                                     "--run-dir",
                                     run_dir,
                                     "--set",
                                     "data.validation_fraction=0.2",
                                     "--set",
                                     "runtime.eval_batches=2"};
    argv.insert(argv.end(), more.begin(), more.end());
    return run(argv, fixture_.options("", 60));
  }
  void train(const std::string& run_dir, const std::vector<std::string>& more) const {
    const SubprocessResult r = launch(run_dir, more);
    INFO(run_dir << "\n" << r.out << r.err);
    REQUIRE(r.exit_code == 0);
  }
  SubprocessResult trainctl(std::vector<std::string> argv) const {
    argv.insert(argv.begin(), program("trainctl"));
    return run(argv, fixture_.options("", 60));
  }
  nlohmann::json inspect(const std::string& run_dir) const {
    const SubprocessResult r = trainctl({"checkpoint", "inspect", run_dir, "--json"});
    REQUIRE(r.exit_code == 0);
    return nlohmann::json::parse(r.out);
  }
  // Of metrics.jsonl: the values of `key` ("loss", "eval_loss") by step.
  std::map<int64_t, double> metric(const std::string& run_dir, const std::string& key) const {
    std::map<int64_t, double> values;
    std::istringstream lines(read_text(path() / run_dir / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);)
      if (const nlohmann::json j = nlohmann::json::parse(line); j.contains(key)) values[j.at("step")] = j.at(key);
    return values;
  }
  std::filesystem::path path() const { return fixture_.folder.path(); }

 private:
  LaunchFixture fixture_;
};

inline std::vector<std::string> set(const std::vector<std::string>& values, std::vector<std::string> more = {}) {
  for (const std::string& value : values) more.insert(more.end(), {"--set", value});
  return more;
}

inline const std::string kOneRank = "parallelism.tensor_parallel=1", kPp2 = "parallelism.pipeline_parallel=2";

inline void refused(const SubprocessResult& r, int code, const std::string& part) {
  INFO(r.out << r.err);
  CHECK(r.exit_code == code);
  CHECK_THAT(r.err, Catch::Contains(part));
}

}  // namespace trainctl::testing
