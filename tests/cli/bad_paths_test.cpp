// tests/cli/bad_paths_test.cpp -- paths that the kernel refuses, given to every command that takes one.
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "support/catch.h"
#include "support/launch_fixture.h"

namespace trainctl::testing {
namespace {

using Catch::Contains;
namespace fs = std::filesystem;
using Commands = std::vector<std::vector<std::string>>;

// A run of one step, what export made of it, a text, and a link to itself.
struct Inputs {
  Inputs() {
    fixture.use_real_worker();
    const SubprocessResult trained =
        fixture.launch({"--ranks", "1", "--launcher", "threads", "--set", "parallelism.tensor_parallel=1"});
    INFO(trained.err);
    REQUIRE(trained.exit_code == 0);
    REQUIRE(run({program("trainctl"), "checkpoint", "export", base, "--to", "hf", "--output", hf}).exit_code == 0);
    fs::create_symlink("loop", folder() / "loop");
  }
  const fs::path& folder() const { return fixture.folder.path(); }
  LaunchFixture fixture = LaunchFixture(1);
  std::string base = fixture.run_dir().string(), hf = (folder() / "hf").string();
  std::string text = (folder() / "data/text.txt").string(), recipe = fixture.recipe;

  // "@" stands for the path.
  Commands reading() const {
    return {{"check", "@"},
            {"plan", recipe, "--topology", "@"},
            {"plan", recipe, "--against", "@"},
            {"topology", "show", "@"},
            {"data", "inspect", "@"},
            {"data", "prepare", "@", "--output", "made/tokens"},
            {"checkpoint", "list", "@"},
            {"checkpoint", "inspect", "@"},
            {"checkpoint", "verify", "@"},
            {"checkpoint", "diff", "@", base},
            {"checkpoint", "mark", "pin", "@", "--reason", "x"},
            {"checkpoint", "prune", "@", "--keep", "1"},
            {"checkpoint", "adopt", "@"},
            {"checkpoint", "export", "@", "--to", "hf", "--output", "made"},
            {"checkpoint", "import", "--from", "hf", "@"}};
  }
  Commands writing() const {
    return {{"launch", recipe, "--dry-run", "--run-dir", "@"},
            {"topology", "discover", "--no-measure", "--output", "@"},
            {"data", "prepare", text, "--output", "@"},
            {"checkpoint", "export", base, "--to", "hf", "--output", "@"},
            {"checkpoint", "export", base, "--to", "gguf", "--output", "@"},
            {"checkpoint", "import", "--from", "hf", hf, "--output", "@"},
            {"accept", recipe, "--only", "checkpoint", "--folder", "@"}};
  }

  // Runs the command in `directory`, or where `in_deleted` in a folder that is gone by then.
  SubprocessResult with(std::vector<std::string> command, const std::string& path, bool in_deleted = false) const {
    for (std::string& word : command)
      if (word == "@") word = path;
    command.insert(command.begin(), program("trainctl"));
    if (in_deleted)
      command.insert(command.begin(), {"sh", "-c", "mkdir gone && cd gone && rmdir ../gone && exec \"$@\"", "sh"});
    SubprocessResult r = run(command, {.environment = {}, .directory = folder(), .timeout_s = 20});
    std::string line;
    for (const std::string& word : command) line += " " + word.substr(0, 80);
    UNSCOPED_INFO(line << "\n" << r.exit_code << "\n" << r.err);
    return r;
  }
};

const Inputs& inputs() {
  static const Inputs all;
  return all;
}

}  // namespace

TEST_CASE("a path that the kernel refuses is an ordinary error of every command: exit 2, 3 or 5, path and cause",
          "[cli]") {
  const Inputs& in = inputs();
  const std::string name(300, 'n');
  const auto check = [&](const std::vector<std::string>& command, const std::string& path, const std::string& cause) {
    const SubprocessResult r = in.with(command, path);
    CHECK(r.exit_code == 2);
    CHECK_THAT(r.err,
               Contains("trainctl: ") && Contains(path.substr(0, 300)) && Contains(cause) && !Contains("internal"));
  };
  for (const auto& command : in.reading()) check(command, name, "too long");
  for (const auto& command : in.writing()) {
    check(command, name, "too long");
    check(command, name + "/x", "too long");
    const SubprocessResult r = in.with(command, in.text + "/x");
    CHECK(r.exit_code == 2);
    CHECK_THAT(r.err, Contains(in.text));
  }
  for (const auto& command : in.reading())
    if (command[0] != "data" && command[0] != "topology") check(command, "loop", "circle");
}

TEST_CASE("a place where nothing can be made is the environment's fault: exit 3, path and cause", "[cli]") {
  const Inputs& in = inputs();
  for (const auto& command : in.writing()) {
    if (command[0] == "launch") continue;  // a dry run makes nothing
    const SubprocessResult r = in.with(command, "/proc/none/made");
    CHECK(r.exit_code == 3);
    CHECK_THAT(r.err, Contains("trainctl: ") && Contains("/proc/none") && Contains("No such file"));
  }
}

TEST_CASE("in a working directory that was deleted a relative path is an error that says so", "[cli]") {
  const Inputs& in = inputs();
  for (const Commands& commands : {in.reading(), in.writing()})
    for (const auto& command : commands) {
      const SubprocessResult r = in.with(command, "some/where", true);
      CHECK((r.exit_code == 2 || r.exit_code == 3 || r.exit_code == 5));
      CHECK_THAT(r.err, Contains("trainctl: ") && !Contains("internal"));
      if (r.exit_code == 3) CHECK_THAT(r.err, Contains("working directory was deleted"));
    }
  for (const auto& command : in.writing()) CHECK(in.with(command, "some/where", true).exit_code == 3);
}

TEST_CASE("what may not be looked into is not told as absent", "[cli]") {
  if (::geteuid() != 0 || run({"sh", "-c", "command -v setpriv"}).exit_code != 0) return;  // nobody else to be
  const Inputs& in = inputs();
  fs::create_directories(in.folder() / "closed/in");
  fs::permissions(in.folder() / "closed", fs::perms::none);
  fs::permissions(in.folder(), fs::perms::all);
  for (const auto& command : in.reading()) {
    if (command[0] == "data") continue;
    std::vector<std::string> line = {"setpriv", "--reuid", "65534", "--clear-groups", program("trainctl")};
    for (const std::string& word : command) line.push_back(word == "@" ? "closed/in" : word);
    const SubprocessResult r = run(line, {.environment = {}, .directory = in.folder(), .timeout_s = 20});
    INFO(r.err);
    CHECK((r.exit_code == 2 || r.exit_code == 3));
    CHECK_THAT(r.err, Contains("closed/in") && Contains("Permission denied"));
  }
  fs::permissions(in.folder() / "closed", fs::perms::all);
}

TEST_CASE("names that JSON cannot tell are refused where they would be written, and repeated as well as they can be",
          "[cli]") {
  const Inputs in;
  for (const std::string name : {"a\nrun", "a\xffrun", "\x1brun"}) {
    const fs::path odd = in.folder() / name;
    for (const char* option : {"--run-dir", "--resume", "--init-from"}) {
      const SubprocessResult r = in.fixture.launch({"--ranks", "1", "--launcher", "threads", option, odd.string()});
      CHECK(r.exit_code == 2);
      CHECK_THAT(r.err, Contains(std::string(option) + " ") && Contains("rename it") && !Contains("internal"));
    }
    CHECK_FALSE(fs::exists(odd));
    fs::copy(in.base, odd, fs::copy_options::recursive);
    for (const char* command : {"list", "inspect", "verify"}) {
      const SubprocessResult r = run({program("trainctl"), "checkpoint", command, odd.string(), "--json"});
      INFO(command << "\n" << r.out << r.err);
      CHECK(r.exit_code == 0);
      CHECK(nlohmann::json::accept(r.out));
    }
  }
}

}  // namespace trainctl::testing
