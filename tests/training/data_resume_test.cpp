// tests/training/data_resume_test.cpp -- what happens to the data when a run resumes: `trainctl launch` stopped
// anywhere, in other layouts, with other data, other batches. samples.jsonl says what was consumed.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/atomic_file.h"
#include "data_project.h"
#include "support/catch.h"

namespace trainctl::testing {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using nlohmann::json;

// Of each source whole epochs one after the other, no sequence twice; `whole`: sequences of an epoch, by source.
void check_epochs(const Samples& samples, const std::map<int64_t, int64_t>& whole) {
  std::map<int64_t, std::pair<int64_t, std::set<int64_t>>> now;  // of each source its epoch, and what it gave of it
  for (const std::vector<int64_t>& id : samples) {
    auto& [epoch, given] = now[id[0]];
    if (id[1] != epoch) {
      REQUIRE(id[1] == epoch + 1);
      REQUIRE(std::ssize(given) == whole.at(id[0]));
      epoch = id[1];
      given.clear();
    }
    REQUIRE(given.insert(id[2]).second);
  }
}

// Sequences of an epoch, by source, from a run that saw more than one of each.
std::map<int64_t, int64_t> epoch_lengths(const Samples& samples) {
  std::map<int64_t, int64_t> lengths;
  for (const std::vector<int64_t>& id : samples) lengths[id[0]] = std::max(lengths[id[0]], id[2] + 1);
  return lengths;
}

const Words kTp2 = {"parallelism.tensor_parallel=2"}, kPp2 = {"parallelism.pipeline_parallel=2"};
const std::string kThird = R"(data.train=[{"path":"data/a"},{"path":"data/b","weight":0.5},{"path":"data/c"}])";
const std::string kOtherWeights = R"(data.train=[{"path":"data/a"},{"path":"data/b","weight":2}])";
const std::string kOnlyB = R"(data.train=[{"path":"data/b"}])";

Words plus(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

TEST_CASE("40 steps give the same sample ids with any stops, twice in a row too, and in changing layouts",
          "[training][data]") {
  const Project project;
  project.train("whole", 1, 40);
  const Samples whole = project.samples("whole");
  CHECK(std::ssize(whole) == 40 * kBatch);
  const std::map<int64_t, int64_t> lengths = epoch_lengths(whole);
  check_epochs(whole, lengths);
  for (const int64_t source : {0, 1})  // epochs end between the stops and away from step borders
    CHECK(std::count_if(whole.begin(), whole.end(), [&](const auto& id) { return id[0] == source && id[1] >= 2; }) > 0);

  project.train("parts", 1, 7, {"runtime.micro_batch_size=2"});
  project.train("parts", 2, 11, {"runtime.micro_batch_size=2"});
  project.train("parts", 2, 12, plus(kTp2, {"runtime.micro_batch_size=4"}));
  project.train("parts", 4, 33, kPp2);
  project.train("parts", 4, 40);
  CHECK(project.samples("parts") == whole);
  const std::vector<json> metrics = project.lines("parts/metrics.jsonl");
  REQUIRE(metrics.size() == 40);
  for (size_t i = 0; i < metrics.size(); ++i)
    CHECK(metrics[i]["consumed_tokens"] == static_cast<int64_t>(i + 1) * kBatch * kSequence);
}

TEST_CASE("data that change on the way are refused by name, or continued per source, or begun anew",
          "[training][data]") {
  const Project project;
  project.train("base", 1, 10);
  const Samples ten = project.samples("base");
  project.train("fresh", 1, 60, {kThird});
  const std::map<int64_t, int64_t> lengths = epoch_lengths(project.samples("fresh"));
  struct Change {
    std::string name, setting, told;
  };
  for (const Change& change :
       std::vector<Change>{{"third", kThird, "data.train[2] (\"data/c\"), 18 documents"},
                           {"weights", kOtherWeights, "data.train[1].weight (\"data/b\"): 0.5 -> 2"},
                           {"gone", kOnlyB, "\"data/a\", 30 documents"}}) {
    INFO(change.name);
    project.copy("base", change.name);
    const std::string recipe = read_file(project.path() / change.name / "recipe.json");
    const SubprocessResult refused = project.launch(change.name, 1, 20, {change.setting});
    CHECK(refused.exit_code == 5);
    CHECK_THAT(refused.err, Contains(change.told) && Contains("data.on_change") && Contains("\"continue\"") &&
                                Contains("\"restart\""));
    CHECK(read_file(project.path() / change.name / "recipe.json") == recipe);

    const Words keep = {change.setting, "data.on_change=continue"};
    const std::string told = project.train(change.name, 2, 17, keep);
    CHECK_THAT(told, Contains("the data changed: ") && Contains(change.told) && Contains("from sample 40 on"));
    // Going on needs no key any more, in other layouts.
    project.train(change.name, 4, 40, plus(kPp2, {change.setting}));
    const Samples samples = project.samples(change.name);
    CHECK(part(samples, 0, 40) == ten);
    check_epochs(samples, lengths);
    // The change can be taken back, and the sources still go on.
    project.train(change.name, 1, 60, {"data.on_change=continue"});
    check_epochs(project.samples(change.name), lengths);
  }
  project.copy("base", "straight");
  project.train("straight", 2, 40, plus(kTp2, {kThird, "data.on_change=continue"}));
  CHECK(project.samples("straight") == part(project.samples("third"), 0, 40 * kBatch));

  project.copy("base", "anew");
  project.train("anew", 1, 16, {kThird, "data.on_change=restart"});
  project.train("anew", 2, 22, {kThird});
  CHECK(project.samples("anew", 10) == part(project.samples("fresh"), 0, 12 * kBatch));
  CHECK(project.lines("anew/metrics.jsonl").back()["consumed_tokens"] == 22 * kBatch * kSequence);
}

TEST_CASE("a change of the fraction, the seed or the sequence is no choice for continue, and may begin anew",
          "[training][data]") {
  const Project project;
  project.train("base", 1, 3);
  for (const auto& [setting, told] : std::vector<std::pair<std::string, std::string>>{
           {"data.validation_fraction=0.3", "data.validation_fraction: 0.1 -> 0.3"},
           {"runtime.seed=5", "runtime.seed: 1234 -> 5"},
           {"data.sequence_tokens=8", "data.sequence_tokens: 16 -> 8"}}) {
    INFO(setting);
    const SubprocessResult r = project.launch("base", 1, 5, {setting, "data.on_change=continue"});
    CHECK(r.exit_code == 5);
    CHECK_THAT(r.err, Contains("checkpoints/step-00000003") && Contains(told) &&
                          Contains("\"continue\" is no choice") && Contains("\"restart\""));
  }
  const Words changed = {"data.validation_fraction=0.3", "data.sequence_tokens=8"};
  CHECK_THAT(project.launch("base", 1, 5, changed).err, Contains("0.1 -> 0.3") && Contains("16 -> 8"));
  project.train("base", 1, 6, plus(changed, {"data.on_change=restart"}));
  project.train("new", 1, 3, changed);
  CHECK(project.samples("base", 3) == project.samples("new"));
}

TEST_CASE("a source named twice, and a copy, go on as themselves", "[training][data]") {
  const Project project;
  fs::copy(project.path() / "data/b.bin", project.path() / "data/copy.bin");
  fs::copy(project.path() / "data/b.idx", project.path() / "data/copy.idx");
  project.train("twice", 1, 8, {R"(data.train=[{"path":"data/b"},{"path":"data/b"},{"path":"data/a"}])"});
  project.train("twice", 1, 16, {R"(data.train=[{"path":"data/copy"},{"path":"data/b"},{"path":"data/a"}])"});
  const std::string told =
      project.train("twice", 1, 40, {R"(data.train=[{"path":"data/a"},{"path":"data/b"}])", "data.on_change=continue"});
  CHECK_THAT(told, Contains("is gone"));
  project.train(
      "twice", 1, 60,
      {R"(data.train=[{"path":"data/b"},{"path":"data/a"},{"path":"data/copy"}])", "data.on_change=continue"});
  const Samples samples = project.samples("twice");
  std::map<int64_t, int64_t> lengths = epoch_lengths(samples);
  CHECK(lengths.size() == 3);
  check_epochs(samples, lengths);
}

TEST_CASE("MPI ranks continue what one rank saved before the data changed, with the bits of ranks that are threads",
          "[training][data][mpi]") {
  const Project project;
  project.train("threads", 1, 6);
  project.copy("threads", "mpi");
  project.prepare("b", corpus('b', 23));  // one document more
  for (const std::string run_dir : {"threads", "mpi"}) {
    const std::string told = project.train(run_dir, 2, 14, {kThird, "data.on_change=continue"},
                                           {"--launcher", run_dir == "mpi" ? "mpirun" : "threads"});
    CHECK_THAT(told, Contains("data.train[1] (\"data/b\") has other content: 22 documents") &&
                         Contains("-> 23 documents") && !Contains("is gone") && Contains("from sample 24 on"));
  }
  const Samples samples = project.samples("mpi");
  CHECK(samples == project.samples("threads"));
  std::set<int64_t> numbers;
  for (const auto& id : part(samples, 24, 32)) numbers.insert(id[0]);
  CHECK(numbers == std::set<int64_t>{0, 2, 3});
  const std::vector<json> mpi = project.lines("mpi/metrics.jsonl"), threads = project.lines("threads/metrics.jsonl");
  REQUIRE(mpi.size() == 14);
  for (size_t i = 0; i < mpi.size(); ++i) CHECK(mpi[i]["loss"] == threads.at(i)["loss"]);
}

TEST_CASE("what is no change is not refused: the weight of an only source, and a small source that moved in the list",
          "[training][data]") {
  const Project project;
  const std::string only = R"(data.train=[{"path":"data/a"}])",
                    heavier = R"(data.train=[{"path":"data/a","weight":3}])";
  project.train("whole", 1, 9, {only});
  project.train("only", 1, 4, {only});
  project.train("only", 1, 9, {heavier});
  CHECK(project.samples("only") == project.samples("whole"));

  // One of its documents is for validation; if that is the long one, which number and seed decide, nothing is left.
  project.prepare("small", std::string(30, 's') + "\n\nx\n\ny\n\nz\n\n");
  const std::string first = R"(data.train=[{"path":"data/small"},{"path":"data/a"}])",
                    second = R"(data.train=[{"path":"data/a"},{"path":"data/small"}])";
  for (int seed = 1;; ++seed) {
    REQUIRE(seed < 100);
    const std::string name = fmt::format("seed{}", seed), set = fmt::format("runtime.seed={}", seed);
    const auto works = [&](const std::string& run_dir, const std::string& train) {
      const SubprocessResult r = project.launch(run_dir, 1, 3, {train, set});
      if (r.exit_code != 0) REQUIRE_THAT(r.err, Contains("fewer than one sequence"));
      return r.exit_code == 0;
    };
    if (!works(name, first) || works(name + "moved", second)) continue;
    const std::string told = project.train(name, 2, 9, {second, set, "data.on_change=continue"});
    CHECK_THAT(told, Contains("\"data/small\" (data.train[1]) goes on behind 6 samples"));
    break;
  }
}

TEST_CASE("another global_batch_size goes on with the next sample and is told", "[training][data]") {
  const Project project;
  project.train("whole", 1, 24);
  const Samples whole = project.samples("whole");
  project.train("changed", 1, 6);
  const std::string told = project.train("changed", 2, 10, {"runtime.global_batch_size=8"});
  CHECK_THAT(told, Contains("runtime.global_batch_size is 8, it was 4: step 7 begins with sample 24"));
  project.train("changed", 1, 15, {"runtime.global_batch_size=2"});
  CHECK(project.samples("changed") == part(whole, 0, 24 + 32 + 10));
  const std::vector<json> metrics = project.lines("changed/metrics.jsonl");
  CHECK(metrics.at(5)["consumed_tokens"] == 24 * kSequence);
  CHECK(metrics.at(9)["consumed_tokens"] == 56 * kSequence);
  CHECK(metrics.at(14)["consumed_tokens"] == 66 * kSequence);
  const json scalars = project.inspect("changed")["scalars"];
  CHECK(scalars["consumed_samples"] == 66);
  CHECK(scalars["consumed_tokens"] == 66 * kSequence);
}

}  // namespace trainctl::testing
