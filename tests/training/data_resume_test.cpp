// tests/training/data_resume_test.cpp -- what happens to the data when a run resumes: `trainctl launch` stopped
// anywhere, in other layouts, with other data, other batches, and batches skipped. samples.jsonl says what was
// consumed.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/atomic_file.h"
#include "support/catch.h"
#include "support/subprocess.h"

namespace trainctl::testing {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using nlohmann::json;
using Words = std::vector<std::string>;
using Samples = std::vector<std::vector<int64_t>>;  // source number, epoch, sequence

constexpr int64_t kBatch = 4, kSequence = 16;

// Documents of unequal length: some 23, 17 and 14 samples per epoch of a, b and c.
std::string corpus(uint32_t state, int documents) {
  std::string text;
  for (int document = 0; document < documents; ++document) {
    state = state * 1664525u + 1013904223u;
    text += std::string(1 + (state >> 16) % 26, static_cast<char>('a' + (state >> 8) % 26)) + "\n\n";
  }
  return text;
}

class Project {
 public:
  Project() {
    for (const auto& [name, documents] : std::map<std::string, int>{{"a", 30}, {"b", 22}, {"c", 18}})
      prepare(name, corpus(static_cast<uint32_t>(name[0]), documents));
    write_file_atomically(path() / "recipe.json", R"({
      "name": "small",
      "model": {"family": "llama", "layers": 2, "d_model": 16, "heads": 2, "kv_heads": 2, "d_ff": 32, "vocab": "tokenizer"},
      "data": {"train": [{"path": "data/a"}, {"path": "data/b", "weight": 0.5}], "validation_fraction": 0.1,
               "sequence_tokens": 16, "log_samples": true},
      "optimizer": {"lr": 0.003, "schedule": {"kind": "constant"}},
      "runtime": {"steps": 40, "micro_batch_size": 1, "global_batch_size": 4, "watchdog_s": 60},
      "checkpoint": {"every_steps": 0, "async": false}})");
  }

  fs::path path() const { return folder_.path(); }
  SubprocessResult trainctl(Words arguments) const {
    arguments.insert(arguments.begin(), program("trainctl"));
    return run(arguments, {.environment = {}, .directory = path(), .timeout_s = 120});
  }
  // data/NAME, also when it is there already.
  void prepare(const std::string& name, const std::string& text) const {
    write_file_atomically(path() / (name + ".txt"), text);
    const SubprocessResult r = trainctl({"data", "prepare", name + ".txt", "--output", "data/" + name, "--force"});
    INFO(r.err);
    REQUIRE(r.exit_code == 0);
  }
  // With ranks that are threads, unless `more` names another launcher.
  SubprocessResult launch(const std::string& run_dir, int ranks, int64_t steps, const Words& settings = {},
                          const Words& more = {}) const {
    const bool threads = std::find(more.begin(), more.end(), "--launcher") == more.end();
    Words arguments = {"launch",
                       "recipe.json",
                       "--ranks",
                       std::to_string(ranks),
                       "--run-dir",
                       run_dir,
                       "--set",
                       fmt::format("runtime.steps={}", steps),
                       "--oversubscribe",
                       "--threads-per-rank",
                       "1"};
    if (threads) arguments.insert(arguments.end(), {"--launcher", "threads"});
    for (const std::string& s : settings) arguments.insert(arguments.end(), {"--set", s});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return trainctl(arguments);
  }
  // What was shown on stderr.
  std::string train(const std::string& run_dir, int ranks, int64_t steps, const Words& settings = {},
                    const Words& more = {}) const {
    const SubprocessResult r = launch(run_dir, ranks, steps, settings, more);
    INFO(run_dir << ", " << ranks << " ranks to step " << steps << "\n" << r.out << r.err);
    REQUIRE(r.exit_code == 0);
    return r.err;
  }
  void copy(const std::string& from, const std::string& to) const {
    fs::copy(path() / from, path() / to, fs::copy_options::recursive);
  }
  std::vector<json> lines(const std::string& file) const {
    std::vector<json> out;
    std::istringstream text(read_file(path() / file));
    for (std::string line; std::getline(text, line);) out.push_back(json::parse(line));
    return out;
  }
  // Of steps first + 1, first + 2, ...; checks that no step is missing or twice.
  Samples samples(const std::string& run_dir, int64_t first = 0) const {
    Samples out;
    int64_t last = 0;
    for (const json& line : lines(run_dir + "/samples.jsonl")) {
      CHECK(line["step"] == ++last);
      if (last > first)
        for (const json& id : line["samples"]) out.push_back(id.get<std::vector<int64_t>>());
    }
    return out;
  }
  std::string checkpoint(const std::string& run_dir, int64_t step) const {
    return fmt::format("{}/checkpoints/step-{:08}", run_dir, step);
  }
  json inspect(const std::string& folder) const {
    const SubprocessResult r = trainctl({"checkpoint", "inspect", folder, "--json"});
    INFO(r.err);
    REQUIRE(r.exit_code == 0);
    return json::parse(r.out);
  }

 private:
  TemporaryFolder folder_;
};

Samples part(const Samples& all, int64_t from, int64_t count) {
  REQUIRE(from + count <= std::ssize(all));
  return {all.begin() + from, all.begin() + from + count};
}

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

TEST_CASE("batches skipped after a rollback are skipped once, over crashes, resumes and layouts", "[training][data]") {
  const Project project;
  project.train("run", 1, 16, {"checkpoint.every_steps=4", "checkpoint.keep=9"});
  const Samples whole = [&] {
    project.train("whole", 1, 24);
    return project.samples("whole");
  }();
  const Words rollback = {"--resume", project.checkpoint("run", 8), "--skip-batches", "3"};
  // Nothing is saved: for the run that is a crash before its first save.
  const Words unsaved = {"checkpoint.at_end=false"};
  const std::string told = project.train("run", 1, 10, unsaved, rollback);
  CHECK_THAT(told, Contains("skips 3 batches after step 8: samples 32 to 43 (--skip-batches)") &&
                       Contains("the skipped samples are 8 of \"data/a\" (0.") && Contains("4 of \"data/b\" (0."));
  CHECK(project.samples("run", 8) == part(whole, 44, 8));
  for (const int64_t step : {int64_t{12}, int64_t{16}})
    CHECK(project.inspect(project.checkpoint("run", step))["state"] == "unusable");
  // A plain relaunch, twice.
  CHECK_THAT(project.train("run", 2, 11, unsaved), Contains("skips 3 batches"));
  CHECK_THAT(project.train("run", 2, 13), Contains("skips 3 batches"));
  CHECK(project.samples("run", 8) == part(whole, 44, 20));
  // Now the run has a state that comes after the gap.
  const std::string later = project.train("run", 2, 18, kTp2);
  CHECK(later.find("skip") == std::string::npos);
  CHECK(project.samples("run", 8) == part(whole, 44, 40));
  int64_t notes = 0;
  for (const json& event : project.lines("run/events.jsonl"))
    notes += event["text"].get<std::string>().find("skips 3 batches") != std::string::npos;
  CHECK(notes == 3);
  const json scalars = project.inspect("run")["scalars"];
  CHECK(scalars["consumed_samples"] == 18 * kBatch + 12);
  CHECK(scalars["consumed_tokens"] == 18 * kBatch * kSequence);
  CHECK(scalars["data_state"]["skipped"] == json::parse(R"([{"after_step": 8, "first": 32, "count": 12}])"));
  CHECK(project.lines("run/metrics.jsonl").back()["consumed_tokens"] == 18 * kBatch * kSequence);

  // Back again, without skipping: an explicit --resume forgets it. And in a run of its own, from elsewhere.
  project.train("run", 1, 10, {}, {"--resume", project.checkpoint("run", 8)});
  CHECK(project.samples("run", 8) == part(whole, 32, 8));
  const Words elsewhere = {"--resume", project.checkpoint("run", 8), "--skip-batches", "1"};
  const auto of_steps = [&project](const std::string& run_dir) {
    Samples out;
    for (const json& line : project.lines(run_dir + "/samples.jsonl"))
      for (const json& id : line["samples"]) out.push_back(id.get<std::vector<int64_t>>());
    return out;
  };
  project.train("branch", 1, 10, unsaved, elsewhere);
  CHECK_THAT(project.train("branch", 1, 11), Contains("as it was told before") && Contains("skips 1 batch"));
  project.train("branch", 1, 12);
  CHECK(of_steps("branch") == part(whole, 36, 16));
}

TEST_CASE("--skip-batches without one named checkpoint is refused, and says so when it did not come to be",
          "[training][data]") {
  const Project project;
  project.train("run", 1, 4, {"checkpoint.every_steps=2"});
  const auto refused = [&](const Words& more, int code, const std::string& why) {
    const SubprocessResult r = project.launch("run", 1, 6, {}, more);
    INFO(r.err);
    CHECK(r.exit_code == code);
    CHECK_THAT(r.err, Contains(why));
  };
  refused({"--skip-batches", "2"}, 2, "--skip-batches 2");
  refused({"--skip-batches", "2", "--resume", "auto"}, 2, "--resume is auto");
  refused({"--skip-batches", "2", "--resume", "never"}, 2, "--resume is never");
  refused({"--skip-batches", "2", "--resume", "run"}, 2, "--resume is run");
  refused({"--skip-batches", "2", "--init-from", "run"}, 2, "--skip-batches 2");
  refused({"--skip-batches", "0", "--resume", project.checkpoint("run", 2)}, 2, "--skip-batches");
  refused({"--skip-batches", "2", "--resume", project.checkpoint("run", 3)}, 5, "no such checkpoint");
  // Refused by the ranks: the run goes on as if it had not been asked for.
  const SubprocessResult r = project.launch("run", 1, 6, {"runtime.seed=9"},
                                            {"--skip-batches", "2", "--resume", project.checkpoint("run", 2)});
  CHECK(r.exit_code == 5);
  CHECK_THAT(project.train("run", 1, 6), !Contains("skip"));
  CHECK(project.samples("run").size() == 6 * kBatch);
}

}  // namespace trainctl::testing
