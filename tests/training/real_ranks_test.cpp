// tests/training/real_ranks_test.cpp -- whole runs through `trainctl launch`: real MPI ranks against one rank, a
// resumed run against an uninterrupted one, token by token.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/atomic_file.h"
#include "support/catch.h"
#include "support/load_line.h"
#include "support/subprocess.h"

namespace trainctl::testing {
namespace {

// 60 documents of words: enough structure to learn, small enough to train in a second.
std::string corpus() {
  const std::vector<std::string> words = {"rank", "step", "token", "shard", "stage", "loss", "norm", "mesh", "group"};
  std::string text;
  uint32_t state = 1;
  for (int document = 0; document < 60; ++document) {
    for (int word = 0; word < 60; ++word) {
      state = state * 1664525u + 1013904223u;
      text += words[(state >> 16) % words.size()] + " ";
    }
    text += "\n\n";
  }
  return text;
}

class Project {
 public:
  Project() {
    write_file_atomically(folder_.path() / "corpus.txt", corpus());
    const SubprocessResult r = trainctl({"data", "prepare", "corpus.txt", "--output", "data/words"});
    INFO(r.err);
    REQUIRE(r.exit_code == 0);
    // eps is well above rounding: AdamW divides a gradient by its own size, so where it is nearly zero, a smaller eps
    // turns differences in the last bit into steps of lr, in any layout.
    const auto recipe = nlohmann::json::parse(R"({
      "name": "words",
      "model": {"family": "llama", "layers": 4, "d_model": 48, "heads": 6, "kv_heads": 2, "d_ff": 64, "vocab": "tokenizer"},
      "data": {"train": [{"path": "data/words"}], "validation_fraction": 0.1, "sequence_tokens": 32,
               "document_mask": true, "log_samples": true},
      "parallelism": {},
      "optimizer": {"lr": 0.003, "weight_decay": 0.1, "clip_grad_norm": 0.05, "eps": 1e-6},
      "runtime": {"steps": 8, "micro_batch_size": 1, "global_batch_size": 8, "eval_every_steps": 4, "eval_batches": 2,
                  "watchdog_s": 60},
      "checkpoint": {"every_steps": 0}})");
    write_file_atomically(folder_.path() / "recipe.json", recipe.dump());
  }

  const std::filesystem::path& path() const { return folder_.path(); }
  SubprocessResult trainctl(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), program("trainctl"));
    return run(arguments, {.environment = {}, .directory = folder_.path(), .timeout_s = 120});
  }

  // Runs and returns metrics by step: {loss, grad_norm, eval_loss or NaN}.
  struct Line {
    double loss = 0, norm = 0, eval = NAN;
    bool operator==(const Line& o) const {
      return loss == o.loss && norm == o.norm && (eval == o.eval || (std::isnan(eval) && std::isnan(o.eval)));
    }
  };
  std::map<int64_t, Line> train(const std::string& run_dir, int ranks, const std::vector<std::string>& settings,
                                const std::string& launcher = "mpirun") const {
    std::vector<std::string> arguments = {
        "launch",    "recipe.json", "--ranks",         std::to_string(ranks), "--launcher", launcher,
        "--run-dir", run_dir,       "--oversubscribe", "--threads-per-rank",  "1"};
    for (const std::string& s : settings) arguments.insert(arguments.end(), {"--set", s});
    const SubprocessResult r = trainctl(arguments);
    INFO(run_dir << "\n" << r.out << r.err);
    REQUIRE(r.exit_code == 0);
    return metrics(run_dir);
  }

  std::map<int64_t, Line> metrics(const std::string& run_dir) const {
    std::map<int64_t, Line> lines;
    int64_t last = 0;
    for (const auto& json : json_lines(run_dir + "/metrics.jsonl")) {
      const int64_t step = json.at("step");
      if (json.contains("loss")) {
        CHECK(step == last + 1);  // no gap, no double
        last = step;
        lines[step].loss = json.at("loss");
        lines[step].norm = json.at("grad_norm");
      } else {
        lines[step].eval = json.at("eval_loss");
      }
    }
    return lines;
  }

  std::vector<nlohmann::json> json_lines(const std::string& file) const {
    std::vector<nlohmann::json> out;
    std::istringstream text(read_file(folder_.path() / file));
    for (std::string line; std::getline(text, line);) out.push_back(nlohmann::json::parse(line));
    return out;
  }

 private:
  TemporaryFolder folder_;
};

using Lines = std::map<int64_t, Project::Line>;

void check_close(const Lines& got, const Lines& expected) {
  REQUIRE(got.size() == expected.size());
  for (const auto& [step, line] : expected) {
    INFO("step " << step);
    CHECK(got.at(step).loss == Approx(line.loss).epsilon(1e-5));
    CHECK(got.at(step).norm == Approx(line.norm).epsilon(1e-5));
    CHECK(std::isnan(got.at(step).eval) == std::isnan(line.eval));
    if (!std::isnan(line.eval)) CHECK(got.at(step).eval == Approx(line.eval).epsilon(1e-5));
  }
}

const std::vector<std::string> kTp2Pp2 = {"parallelism.tensor_parallel=2", "parallelism.pipeline_parallel=2"};
const std::vector<std::string> kTp2SpDp2 = {"parallelism.tensor_parallel=2", "parallelism.sequence_parallel=true"};

std::vector<std::string> plus(std::vector<std::string> settings, const std::vector<std::string>& more) {
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

}  // namespace

TEST_CASE("MPI ranks in several layouts give one rank's losses, norms and evaluations", "[training][mpi]") {
  const Project project;
  const Lines one = project.train("runs/one", 1, {}, "threads");
  CHECK(one.rbegin()->second.loss < one.begin()->second.loss - 0.5);
  CHECK(one.rbegin()->second.eval < one.at(4).eval);
  check_close(project.train("runs/tp2pp2", 4, kTp2Pp2), one);
  check_close(project.train("runs/tp2sp_dp2", 4, kTp2SpDp2), one);
  check_close(project.train("runs/tp3", 3, {"parallelism.tensor_parallel=3"}), one);
  check_close(project.train("runs/pp4_gpipe", 4,
                            {"parallelism.pipeline_parallel=4", R"(parallelism.pipeline_schedule="gpipe")"}),
              one);
}

TEST_CASE("threads and MPI, twice, give the same bits", "[training][mpi]") {
  const Project project;
  const Lines first = project.train("runs/a", 4, kTp2Pp2);
  CHECK(project.train("runs/b", 4, kTp2Pp2) == first);
  CHECK(project.train("runs/c", 4, kTp2Pp2, "threads") == first);
}

TEST_CASE("a resumed run gives the bits of the uninterrupted one, and consumes the same samples",
          "[training][resume]") {
  const Project project;
  const auto settings = plus(kTp2Pp2, {"optimizer.schedule.kind=constant"});
  const Lines whole = project.train("runs/whole", 4, settings);
  for (const char* stop : {"3", "4", "6"})
    project.train("runs/parts", 4, plus(settings, {fmt::format("runtime.steps={}", stop)}));
  const Lines parts = project.train("runs/parts", 4, settings);
  for (const auto& [step, line] : whole) {
    INFO("step " << step);
    CHECK(parts.at(step).loss == line.loss);
    CHECK(parts.at(step).norm == line.norm);
  }
  CHECK(parts.at(8).eval == whole.at(8).eval);
  CHECK(project.json_lines("runs/parts/samples.jsonl") == project.json_lines("runs/whole/samples.jsonl"));
  // Every file has one block here, and tensor ranks need each other's: each was read once, not once per rank.
  const LoadLine load = last_load(project.path() / "runs/parts");
  CHECK(load.stored > 0);
  CHECK(load.read == load.stored);
}

TEST_CASE("a checkpoint continues in another layout, and in bf16 it continues with the same bits",
          "[training][resume]") {
  const Project project;
  const Lines whole = project.train("runs/whole", 1, {"optimizer.schedule.kind=constant"}, "threads");
  project.train("runs/moved", 4, plus(kTp2SpDp2, {"runtime.steps=4", "optimizer.schedule.kind=constant"}), "threads");
  const Lines moved = project.train("runs/moved", 2,
                                    {"parallelism.pipeline_parallel=2", "optimizer.schedule.kind=constant"}, "threads");
  const LoadLine load = last_load(project.path() / "runs/moved");
  CHECK(load.stored > 0);
  CHECK(load.read == load.stored);
  for (const auto& [step, line] : whole) {
    INFO("step " << step);
    CHECK(moved.at(step).loss == Approx(line.loss).epsilon(1e-5));
    CHECK(moved.at(step).norm == Approx(line.norm).epsilon(1e-5));
  }
  const std::vector<std::string> bf16 = {"runtime.precision=bf16", "optimizer.schedule.kind=constant"};
  const Lines straight = project.train("runs/bf16", 2, bf16, "threads");
  project.train("runs/bf16_parts", 2, plus(bf16, {"runtime.steps=5"}), "threads");
  const Lines resumed = project.train("runs/bf16_parts", 2, bf16, "threads");
  CHECK(resumed.at(8) == straight.at(8));
  CHECK(straight.at(8).loss == Approx(whole.at(8).loss).epsilon(0.02));
}

TEST_CASE("data that no longer fit the checkpoint are refused with both values", "[training][resume]") {
  const Project project;
  project.train("runs/a", 1, {"runtime.steps=3"}, "threads");
  const std::string recipe = read_file(project.path() / "runs/a/recipe.json");
  for (const char* change : {"runtime.seed=99", "data.sequence_tokens=16"}) {
    const SubprocessResult r = project.trainctl(
        {"launch", "recipe.json", "--ranks", "1", "--launcher", "threads", "--run-dir", "runs/a", "--set", change});
    INFO(change << "\n" << r.err);
    CHECK(r.exit_code == 5);
    CHECK_THAT(r.err, Catch::Contains("runs/a/checkpoints/step-00000003"));
    CHECK(read_file(project.path() / "runs/a/recipe.json") == recipe);  // still says what the checkpoint is of
  }
}

TEST_CASE("falling back to an older checkpoint, and having none at all, are told on the screen", "[training][resume]") {
  const Project project;
  std::vector<std::string> arguments = {"launch",    "recipe.json", "--ranks",        "1", "--launcher", "threads",
                                        "--run-dir", "runs/a",      "--oversubscribe"};
  const auto launch = [&](const std::string& steps, const std::vector<std::string>& more = {}) {
    std::vector<std::string> all = arguments;
    all.insert(all.end(), more.begin(), more.end());
    all.insert(all.end(), {"--set", "optimizer.schedule.kind=constant", "--set", "runtime.steps=" + steps});
    return project.trainctl(all);
  };
  REQUIRE(launch("2").exit_code == 0);
  REQUIRE(launch("4").exit_code == 0);
  const auto newest = project.path() / "runs/a/checkpoints/step-00000004";
  for (const auto& file : std::filesystem::directory_iterator(newest / "data")) {
    std::fstream damaged(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    damaged.seekp(static_cast<std::streamoff>(std::filesystem::file_size(file.path())) - 1);
    damaged.put('\x55');
  }
  const SubprocessResult fallen = launch("5");
  CHECK(fallen.exit_code == 0);
  CHECK_THAT(fallen.err, Catch::Contains("step-00000004") && Catch::Contains("continues after step 2"));
  CHECK(project.metrics("runs/a").size() == 5);

  arguments[7] = "runs/b";  // which never saves
  for (const std::string steps : {"4", "3"}) {
    const SubprocessResult anew = launch(steps, {"--set", "checkpoint.at_end=false"});
    CHECK(anew.exit_code == 0);
    CHECK((anew.err.find("no checkpoint to continue from") != std::string::npos) == (steps == "3"));
    CHECK(project.metrics("runs/b").size() == std::stoul(steps));
  }
}

}  // namespace trainctl::testing
