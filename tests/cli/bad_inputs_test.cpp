// tests/cli/bad_inputs_test.cpp -- every command that reads something, given what it cannot read.
#include <nlohmann/json.hpp>

#include "support/catch.h"
#include "support/subprocess.h"

namespace trainctl::testing {

using Catch::Contains;

TEST_CASE("no command crashes, hangs or stays silent over an input that is none", "[cli]") {
  const TemporaryFolder folder;
  folder.file("empty", "");
  std::string binary;
  for (int i = 0; i < 5000; ++i) binary += static_cast<char>(i * i * 31 % 251);
  folder.file("binary", "\xe5" + binary);
  folder.file("deep", std::string(1000000, '['));
  folder.file("digits", "{\"name\": " + std::string(1000000, '9') + "}");
  std::filesystem::create_directories(folder.path() / "directory");
  std::filesystem::create_directories(folder.path() / "odd/checkpoints/step-00000001/manifest.json");
  folder.file("odd/checkpoints/step-00000001/COMMITTED", binary);
  std::filesystem::resize_file(folder.file("endless", ""), uintmax_t{1} << 40);  // sparse
  const std::string recipe = source_path("recipes/llama_tiny.json");
  const std::vector<std::string> inputs = {"empty", "missing", "directory", "binary",         "deep",     "digits",
                                           "odd",   "endless", "/dev/zero", "/proc/self/mem", "/dev/null"};
  const std::vector<std::vector<std::string>> commands = {
      {"check", "@"},
      {"plan", "@"},
      {"plan", recipe, "--topology", "@"},
      {"plan", recipe, "--against", "@"},
      {"launch", "@", "--dry-run"},
      {"topology", "show", "@"},
      {"topology", "check", "@"},
      {"data", "inspect", "@"},
      {"data", "prepare", "@", "--format", "jsonl", "--output", "made/tokens"},
      {"checkpoint", "inspect", "@"},
      {"checkpoint", "verify", "@"},
      {"checkpoint", "diff", "@", "@"},
      {"checkpoint", "mark", "usable", "@", "--step", "2"},
      {"checkpoint", "export", "@", "--to", "hf", "--output", "made"},
  };
  for (const std::string& input : inputs)
    for (std::vector<std::string> command : commands) {
      if (command[0] == "data" && command[1] == "prepare" && input == "endless") continue;  // a line of 1 TiB
      for (std::string& word : command)
        if (word == "@") word = input;
      std::string line;
      for (const std::string& word : command) line += " " + word;
      INFO(line);
      command.insert(command.begin(), program("trainctl"));
      const SubprocessResult r = run(command, {.environment = {}, .directory = folder.path(), .timeout_s = 20});
      INFO(r.err);
      CHECK_FALSE(r.timed_out);
      CHECK((r.exit_code == 2 || r.exit_code == 5));
      CHECK_THAT(r.err, Catch::StartsWith("trainctl: ") && Contains(input == "/dev/null" ? "e" : input));
      CHECK(r.err.size() < 2000);
      CHECK_FALSE(std::filesystem::exists(folder.path() / "made"));
    }
}

TEST_CASE("a recipe or topology that cannot be read is told as what it is", "[cli]") {
  const std::string recipe = source_path("recipes/llama_tiny.json");
  CHECK_THAT(run({program("trainctl"), "check", "missing"}).err,
             Contains("the recipe: cannot read missing") && Contains("recipe file (JSON)"));
  CHECK_THAT(run({program("trainctl"), "plan", recipe, "--topology", "missing"}).err,
             Contains("the topology: cannot read missing") && Contains("trainctl topology discover"));
}

}  // namespace trainctl::testing
