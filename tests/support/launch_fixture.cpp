// tests/support/launch_fixture.cpp -- files for launch tests.
#include "support/launch_fixture.h"

#include <fstream>
#include <sstream>
#include <stdexcept>

namespace trainctl::testing {
namespace {

constexpr const char* kTopology = R"({
  "name": "eight_slots",
  "node_types": [
    { "name": "box", "sockets": 1, "cores": 8, "numa_nodes": 1, "memory_bytes": 8589934592,
      "peak_flops_f32": 8e10, "devices": { "kind": "cpu", "count": 8 } } ],
  "nodes": [ { "names": "localhost", "type": "box" } ],
  "origins": [ { "key": "node_types[0].peak_flops_f32", "origin": "typed" } ]
})";

}  // namespace

LaunchFixture::LaunchFixture(int64_t steps) : worker(program("trainctl_fake_worker")) {
  folder.file("data/text.bin", "");
  folder.file("data/text.idx", "");
  topology = folder.file("topology.json", kTopology);
  recipe = folder.file("recipe.json", R"({
  "name": "fixture",
  "model": { "family": "llama", "layers": 2, "d_model": 64, "heads": 4, "kv_heads": 2, "d_ff": 128, "vocab": "tokenizer" },
  "data": { "train": [ { "path": ")" + (folder.path() / "data/text").string() +
                                          R"(" } ], "sequence_tokens": 32 },
  "parallelism": { "tensor_parallel": 2, "data_parallel": "fill" },
  "optimizer": { "lr": 1e-3 },
  "runtime": { "steps": )" + std::to_string(steps) +
                                          R"(, "micro_batch_size": 1, "global_batch_size": 4 }
})");
}

std::vector<std::string> LaunchFixture::command(const std::vector<std::string>& more) const {
  std::vector<std::string> argv = {program("trainctl"), "launch",  recipe,     "--topology", topology,
                                   "--run-dir",         run_dir(), "--worker", worker};
  if (oversubscribe) argv.push_back("--oversubscribe");
  argv.insert(argv.end(), more.begin(), more.end());
  return argv;
}

SubprocessOptions LaunchFixture::options(const std::string& fake_worker, double timeout_s) const {
  return {.environment = {{"FAKE_WORKER", fake_worker}}, .directory = folder.path(), .timeout_s = timeout_s};
}

SubprocessResult LaunchFixture::launch(const std::vector<std::string>& more, const std::string& fake_worker,
                                       double timeout_s) const {
  return run(command(more), options(fake_worker, timeout_s));
}

std::vector<pid_t> LaunchFixture::worker_pids() const {
  std::vector<pid_t> pids;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(run_dir() / "logs", ignored)) {
    std::ifstream in(entry.path());
    std::string word;
    pid_t pid = 0;
    if (in >> word >> pid && word == "pid") pids.push_back(pid);
  }
  return pids;
}

void LaunchFixture::use_real_worker() {
  worker = program("trainctl_worker");
  std::string text;
  for (int i = 0; i < 400; ++i)
    text += "document " + std::to_string(i * 7919 % 401) + " tells of " +
            std::string(static_cast<size_t>(i % 60), 'x') + " and of nothing else\n\n";
  const SubprocessResult made = run({program("trainctl"), "data", "prepare", folder.file("data/text.txt", text),
                                     "--force", "--output", (folder.path() / "data/text").string()});
  if (made.exit_code != 0) throw std::runtime_error("data prepare failed: " + made.err);
  const SubprocessResult found =
      run({program("trainctl"), "topology", "discover", "--no-measure", "--force", "--output", topology});
  if (found.exit_code != 0) throw std::runtime_error("topology discover failed: " + found.err);
  oversubscribe = true;
}

void LaunchFixture::use_real_worker_after(const std::string& script) {
  use_real_worker();
  worker = folder.file("worker", "#!/bin/sh\n" + script + "\nexec " + program("trainctl_worker") + " \"$@\"\n");
  std::filesystem::permissions(worker, std::filesystem::perms::owner_all);
}

std::map<int64_t, pid_t> LaunchFixture::running_ranks() const {
  std::map<int64_t, pid_t> ranks;
  const std::string launch = (run_dir() / "launch.json").string();
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string arguments = read_text(entry.path() / "cmdline");
    if (arguments.find(launch) == std::string::npos || !arguments.starts_with(worker)) continue;
    const std::string environment = '\0' + read_text(entry.path() / "environ");
    const std::string key = std::string(1, '\0') + "OMPI_COMM_WORLD_RANK=";
    const size_t at = environment.find(key);
    if (at != std::string::npos) ranks[std::stoll(environment.substr(at + key.size()))] = std::stoi(name);
  }
  return ranks;
}

std::string read_text(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream all;
  all << in.rdbuf();  // what a process that ends leaves of its files in /proc is no exception
  return all.str();
}

int64_t count_of(const std::string& text, const std::string& what) {
  int64_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + what.size())) ++count;
  return count;
}

}  // namespace trainctl::testing
