// tests/fault/checkpoint/removed_while_read_test.cpp -- the retention of a run in progress takes a checkpoint away from
// under a command that reads it.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "fault/checkpoint/trace.h"
#include "support/catch.h"
#include "support/local_runs.h"

namespace trainctl::testing {
namespace {

namespace fs = std::filesystem;

// The child of strace: the program that it traces.
pid_t traced_program(pid_t strace) {
  pid_t child = -1;
  std::ifstream("/proc/" + std::to_string(strace) + "/task/" + std::to_string(strace) + "/children") >> child;
  return child;
}

std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Stops `command` where it first opens `file`, removes `folder`, and lets it go on. False: it never opened the file.
bool remove_at_open(const std::vector<std::string>& command, const fs::path& file, const fs::path& folder,
                    const fs::path& directory, SubprocessResult& result) {
  const fs::path log = directory / "strace.log";
  fs::remove(log);
  Subprocess strace(traced({"-o", log.string(), "-P", file.string(), "-e", "trace=openat", "-e",
                            "inject=openat:signal=SIGSTOP:when=1"},
                           command),
                    {.environment = {}, .directory = directory});
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  bool stopped = false, ended = false;
  while (!stopped && !ended && std::chrono::steady_clock::now() < limit) {
    const std::string seen = text_of(log);
    stopped = seen.find("stopped by SIGSTOP") != std::string::npos;
    ended = !is_alive(strace.pid());
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  if (stopped) {
    fs::rename(folder, folder.parent_path() / ".trash");  // as retention begins
    const pid_t program = traced_program(strace.pid());
    REQUIRE(program > 0);
    ::kill(program, SIGCONT);
  }
  result = strace.wait();
  return stopped;
}

}  // namespace

TEST_CASE("a checkpoint that is removed while a command reads it is called removed, and not damaged",
          "[fault][checkpoint]") {
  const Runs runs;
  runs.train("run", set({kOneRank, "runtime.steps=2"}));
  const fs::path good = runs.path() / "run/checkpoints/step-00000002", copy = runs.path() / "copy/step-00000002";
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(good))
    if (entry.is_regular_file()) files.push_back(fs::relative(entry.path(), good));
  const std::vector<std::vector<std::string>> commands = {
      {"verify", copy.string(), "--full"},
      {"diff", copy.string(), good.string()},
      {"inspect", copy.string()},
      {"export", copy.string(), "--to", "hf", "--output", "hf"},
      {"export", copy.string(), "--to", "gguf", "--output", "weights.gguf"}};
  int told = 0;
  for (std::vector<std::string> command : commands) {
    command.insert(command.begin(), {program("trainctl"), "checkpoint"});
    for (const fs::path& file : files) {
      fs::remove_all(copy.parent_path());
      fs::create_directories(copy.parent_path());
      fs::copy(good, copy, fs::copy_options::recursive);
      fs::remove_all(runs.path() / "hf");
      fs::remove(runs.path() / "weights.gguf");
      SubprocessResult r;
      if (!remove_at_open(command, copy / file, copy, runs.path(), r)) continue;
      INFO(command[2] << " " << file << "\n" << r.out << r.err);
      CHECK_FALSE(r.timed_out);
      if (r.exit_code == 0) continue;  // it had read what it needed
      CHECK(r.exit_code == 5);
      CHECK_THAT(r.err, Catch::Contains("was removed meanwhile"));
      CHECK(r.out.find("fault:") == std::string::npos);
      CHECK_FALSE(fs::exists(copy));
      CHECK_FALSE(fs::exists(runs.path() / "hf"));
      CHECK_FALSE(fs::exists(runs.path() / "weights.gguf"));
      ++told;
    }
  }
  CHECK(told >= 5);
}

}  // namespace trainctl::testing
