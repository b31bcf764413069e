// tests/cli/conventions_test.cpp -- what holds for every command: help, exit codes, first lines of errors, completion.
#include <sstream>

#include "support/catch.h"
#include "support/subprocess.h"

namespace trainctl::testing {
namespace {

using Catch::Contains;
using Catch::StartsWith;

// Every command path, from the completion script's case list: `    "data prepare") words=...`.
std::vector<std::vector<std::string>> all_commands() {
  std::vector<std::vector<std::string>> commands;
  std::istringstream script(run({program("trainctl"), "completion", "bash"}).out);
  for (std::string line; std::getline(script, line);) {
    const size_t end = line.find("\") words=");
    if (!line.starts_with("    \"") || end == std::string::npos) continue;
    std::istringstream words(line.substr(5, end - 5));
    std::vector<std::string> path;
    for (std::string word; words >> word;) path.push_back(word);
    commands.push_back(path);
  }
  return commands;
}

SubprocessResult trainctl(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), program("trainctl"));
  return run(arguments);
}

}  // namespace

TEST_CASE("--help of every command ends with an example of that command", "[cli]") {
  const auto commands = all_commands();
  REQUIRE(commands.size() >= 12);
  for (std::vector<std::string> command : commands) {
    std::string path = "trainctl";
    for (const std::string& word : command) path += " " + word;
    INFO(path);
    command.push_back("--help");
    const SubprocessResult r = trainctl(command);
    CHECK(r.exit_code == 0);
    CHECK(r.err.empty());
    CHECK_THAT(r.out, Contains("Example"));
    const size_t examples = r.out.rfind("Example");
    CHECK_THAT(r.out.substr(examples == std::string::npos ? 0 : examples), Contains(path));
  }
}

TEST_CASE("--version names the build", "[cli]") {
  const SubprocessResult r = trainctl({"--version"});
  CHECK(r.exit_code == 0);
  CHECK_THAT(r.out, Catch::Matches("trainctl [0-9.]+ \\(build [-0-9a-z]{8,}\\)\n"));
}

TEST_CASE("a wrong command line gives 2, one line, and the nearest legal word", "[cli]") {
  struct Case {
    std::vector<std::string> arguments;
    std::string says;
  };
  const std::vector<Case> cases = {
      {{}, "needs a command: check"},
      {{"lunch"}, "did you mean launch?"},
      {{"data"}, "needs a command: prepare, inspect"},
      {{"data", "prepar"}, "did you mean prepare?"},
      {{"check", "x.json", "--jsn"}, "did you mean --json?"},
      {{"launch", "x.json", "--run_dir", "a"}, "did you mean --run-dir?"},
      {{"launch", "x.json", "--launcher", "mpi"}, "mpirun"},
      {{"launch", "x.json", "--run-dir="}, "--run-dir"},
      {{"launch", "x.json", "--ranks", "0"}, "--ranks"},
      {{"launch", "x.json", "--ranks", "two"}, "--ranks"},
      {{"launch", "x.json", "--ranks", "99999999999999999999"}, "--ranks"},
      {{"launch"}, "recipe"},
      {{"checkpoint", "prune", "x", "--keep", "0"}, "--keep: 0 is too small; the least is 1"},
      {{"checkpoint", "prune", "x", "--keep", "99999999999999999999"}, "the most is 9223372036854775807"},
      {{"checkpoint", "inspect", "x", "--step", "-1"}, "--step: -1 is too small; the least is 0"},
      {{"data", "inspect", "x", "--top", "1.5"}, "\"1.5\" is no whole number; legal: 0 or more"},
      {{"check", "a.json", "b.json"}, "too many"},
      {{"schema", "recipes"}, "recipe"},
  };
  for (const Case& c : cases) {
    INFO(c.says);
    const SubprocessResult r = trainctl(c.arguments);
    CHECK(r.exit_code == 2);
    CHECK(r.out.empty());
    CHECK_THAT(r.err, StartsWith("trainctl: usage: ") && Contains(c.says) && Contains("--help"));
    CHECK(std::count(r.err.begin(), r.err.end(), '\n') == 1);
  }
}

// The words of every option that takes a value, one command line each, with "" as the value.
TEST_CASE("an empty value is refused by every option and argument that takes one", "[cli]") {
  const std::vector<std::vector<std::string>> lines = {
      {"launch", "", "--ranks", "1"},
      {"launch", "r.json", "--run-dir", ""},
      {"launch", "r.json", "--topology", ""},
      {"launch", "r.json", "--resume", ""},
      {"launch", "r.json", "--worker", ""},
      {"launch", "r.json", "--launcher-arg", ""},
      {"launch", "r.json", "--set", ""},
      {"check", ""},
      {"plan", ""},
      {"plan", "r.json", "--topology", ""},
      {"plan", "r.json", "--against", ""},
      {"data", "prepare", "", "--output", "a"},
      {"data", "prepare", "a.txt", "", "--output", "a"},
      {"data", "prepare", "a.txt", "--output", ""},
      {"data", "prepare", "a.txt", "-o", ""},
      {"data", "inspect", ""},
      {"topology", "discover", "--output", ""},
      {"topology", "discover", "--host", ""},
      {"topology", "show", ""},
      {"topology", "check", ""},
      {"checkpoint", "list", ""},
      {"checkpoint", "inspect", ""},
      {"checkpoint", "verify", ""},
      {"checkpoint", "diff", "a", ""},
      {"checkpoint", "mark", "usable", ""},
      {"checkpoint", "prune", "", "--keep", "1"},
      {"checkpoint", "export", "", "--to", "hf", "--output", "x"},
      {"checkpoint", "export", "x", "--to", "hf", "--output", ""},
  };
  const TemporaryFolder folder;
  for (const std::vector<std::string>& line : lines) {
    std::vector<std::string> argv = {program("trainctl")};
    std::string shown;
    for (const std::string& word : line) {
      argv.push_back(word);
      shown += word.empty() ? " ''" : " " + word;
    }
    INFO(shown);
    const SubprocessResult r = run(argv, {.environment = {}, .directory = folder.path()});
    CHECK(r.exit_code == 2);
    CHECK_THAT(r.err, StartsWith("trainctl: usage: ") && Contains("empty"));
    CHECK(std::filesystem::is_empty(folder.path()));
  }
}

TEST_CASE("output that cannot be written is an error of the environment", "[cli]") {
  const SubprocessResult r = run({"/bin/sh", "-c", program("trainctl") + " schema recipe > /dev/full"});
  CHECK(r.exit_code == 3);
  CHECK_THAT(r.err, StartsWith("trainctl: environment: "));
}

TEST_CASE("no colour goes into a pipe", "[cli]") {
  const SubprocessResult r = trainctl({"lunch"});
  CHECK(r.err.find('\033') == std::string::npos);
}

TEST_CASE("the completion script is legal bash and completes commands and options", "[cli]") {
  const std::string script = run({program("trainctl"), "completion", "bash"}).out;
  const auto complete = [&](const std::string& words) {
    return run({"/bin/bash", "-c",
                script + "\nCOMP_WORDS=(trainctl " + words +
                    ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_trainctl\nprintf '%s\\n' \"${COMPREPLY[@]}\""})
        .out;
  };
  CHECK_THAT(complete("lau"), Contains("launch"));
  CHECK_THAT(complete("launch --dry"), Contains("--dry-run"));
  CHECK_THAT(complete("data pre"), Contains("prepare"));
  CHECK_THAT(complete("data prepare --out"), Contains("--output"));
}

TEST_CASE("the launcher links neither MPI nor the engine's libraries", "[cli]") {
  const SubprocessResult r = run({"/bin/sh", "-c", "ldd " + program("trainctl")});
  REQUIRE(r.exit_code == 0);
  CHECK_THAT(r.out, !Contains("libmpi") && !Contains("libdnnl") && !Contains("libcuda"));
}

}  // namespace trainctl::testing
