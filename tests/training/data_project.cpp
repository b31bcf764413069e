// tests/training/data_project.cpp -- see the header.
#include "data_project.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "base/atomic_file.h"
#include "support/catch.h"

namespace trainctl::testing {

namespace fs = std::filesystem;
using nlohmann::json;

std::string corpus(uint32_t state, int documents) {
  std::string text;
  for (int document = 0; document < documents; ++document) {
    state = state * 1664525u + 1013904223u;
    text += std::string(1 + (state >> 16) % 26, static_cast<char>('a' + (state >> 8) % 26)) + "\n\n";
  }
  return text;
}

Project::Project() {
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

SubprocessResult Project::trainctl(Words arguments) const {
  arguments.insert(arguments.begin(), program("trainctl"));
  return run(arguments, {.environment = {}, .directory = path(), .timeout_s = 120});
}

void Project::prepare(const std::string& name, const std::string& text) const {
  write_file_atomically(path() / (name + ".txt"), text);
  const SubprocessResult r = trainctl({"data", "prepare", name + ".txt", "--output", "data/" + name, "--force"});
  INFO(r.err);
  REQUIRE(r.exit_code == 0);
}

SubprocessResult Project::launch(const std::string& run_dir, int ranks, int64_t steps, const Words& settings,
                                 const Words& more) const {
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

std::string Project::train(const std::string& run_dir, int ranks, int64_t steps, const Words& settings,
                           const Words& more) const {
  const SubprocessResult r = launch(run_dir, ranks, steps, settings, more);
  INFO(run_dir << ", " << ranks << " ranks to step " << steps << "\n" << r.out << r.err);
  REQUIRE(r.exit_code == 0);
  return r.err;
}

void Project::copy(const std::string& from, const std::string& to) const {
  fs::copy(path() / from, path() / to, fs::copy_options::recursive);
}

std::vector<json> Project::lines(const std::string& file) const {
  std::vector<json> out;
  std::istringstream text(read_file(path() / file));
  for (std::string line; std::getline(text, line);) out.push_back(json::parse(line));
  return out;
}

Samples Project::samples(const std::string& run_dir, int64_t first) const {
  Samples out;
  int64_t last = 0;
  for (const json& line : lines(run_dir + "/samples.jsonl")) {
    CHECK(line["step"] == ++last);
    if (last > first)
      for (const json& id : line["samples"]) out.push_back(id.get<std::vector<int64_t>>());
  }
  return out;
}

std::string Project::checkpoint(const std::string& run_dir, int64_t step) const {
  return fmt::format("{}/checkpoints/step-{:08}", run_dir, step);
}

json Project::inspect(const std::string& folder) const {
  const SubprocessResult r = trainctl({"checkpoint", "inspect", folder, "--json"});
  INFO(r.err);
  REQUIRE(r.exit_code == 0);
  return json::parse(r.out);
}

Samples part(const Samples& all, int64_t from, int64_t count) {
  REQUIRE(from + count <= std::ssize(all));
  return {all.begin() + from, all.begin() + from + count};
}

}  // namespace trainctl::testing
