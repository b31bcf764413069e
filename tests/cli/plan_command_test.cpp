// tests/cli/plan_command_test.cpp -- `trainctl plan`: needs nothing but the recipe, and agrees with what a run counts.
#include <nlohmann/json.hpp>
#include <sstream>

#include "support/catch.h"
#include "support/launch_fixture.h"

namespace trainctl::testing {
namespace {

using Catch::Contains;

SubprocessResult plan(std::vector<std::string> arguments, const SubprocessOptions& options = {.timeout_s = 120}) {
  arguments.insert(arguments.begin(), {program("trainctl"), "plan"});
  return run(arguments, options);
}

size_t longest_line(const std::string& text) {
  size_t longest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) longest = std::max(longest, line.size());
  return longest;
}

}  // namespace

TEST_CASE("a plan needs no MPI, no data and no writable folder", "[cli]") {
  const LaunchFixture fixture;
  std::filesystem::remove_all(fixture.folder.path() / "data");
  const TemporaryFolder empty;
  std::filesystem::permissions(empty.path(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  const SubprocessOptions options{
      .environment = {{"PATH", "/nonexistent"}, {"HOME", std::nullopt}}, .directory = empty.path(), .timeout_s = 60};
  const SubprocessResult json = plan({fixture.recipe, "--topology", fixture.topology, "--json"}, options);
  INFO(json.err);
  REQUIRE(json.exit_code == 0);
  const auto value = nlohmann::json::parse(json.out);
  for (const char* key : {"layout", "ranks", "groups", "stages", "memory", "traffic", "flops", "verdict", "warnings"})
    CHECK(value.contains(key));
  CHECK(value["verdict"]["fits"] == true);
  CHECK_THAT(json.err, Contains("warning: ") && Contains("data/text"));
  CHECK(std::filesystem::is_empty(empty.path()));
  CHECK(plan({fixture.recipe}, options).exit_code == 0);
}

TEST_CASE("an illegal layout names every degree, the product and what is legal", "[cli]") {
  const LaunchFixture fixture;
  const SubprocessResult r = plan({fixture.recipe, "--ranks", "4", "--set", "parallelism.tensor_parallel=2", "--set",
                                   "parallelism.pipeline_parallel=2", "--set", "parallelism.data_parallel=2"});
  CHECK(r.exit_code == 2);
  for (const char* part : {"tensor_parallel 2", "pipeline_parallel 2", "data_parallel 2", "8", "4"})
    CHECK_THAT(r.err, Contains(part));
  const SubprocessResult json =
      plan({fixture.recipe, "--set", "parallelism.tensor_parallel=3", "--ranks", "4", "--json"});
  CHECK(json.exit_code == 2);
  const auto value = nlohmann::json::parse(json.out);
  CHECK(value["verdict"]["fits"] == false);
  CHECK_THAT(value["verdict"]["reasons"].dump(), Contains("tensor_parallel 3"));
}

TEST_CASE("what does not fit is printed whole, then ends with 2", "[cli]") {
  const LaunchFixture fixture;
  const SubprocessResult slots =
      plan({fixture.recipe, "--topology", fixture.topology, "--ranks", "16", "--set", "runtime.global_batch_size=16"});
  CHECK(slots.exit_code == 2);
  CHECK_THAT(slots.out, Contains("DOES NOT FIT") && Contains("Memory of a rank"));
  CHECK_THAT(slots.err, Contains("plan: ") && Contains("16"));
  const SubprocessResult memory = plan({fixture.recipe, "--topology", fixture.topology, "--json", "--set",
                                        "model.d_model=8192", "--set", "model.d_ff=65536"});
  CHECK(memory.exit_code == 2);
  CHECK(nlohmann::json::parse(memory.out)["verdict"]["fits"] == false);
}

TEST_CASE("every recipe plans, in tables of at most 100 columns", "[cli]") {
  const SubprocessResult help = plan({"--help"});
  CHECK_THAT(help.out, Contains("--against") && Contains("2"));
  int64_t recipes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_path("recipes"))) {
    if (entry.path().extension() != ".json") continue;
    ++recipes;
    const SubprocessResult r = plan({entry.path().string()});
    INFO(entry.path() << "\n" << r.err);
    CHECK(r.exit_code == 0);
    CHECK(longest_line(r.out) <= 100);
  }
  CHECK(recipes >= 6);
}

TEST_CASE("405 billion parameters on 2048 devices plan on this machine, and fit", "[cli]") {
  const std::vector<std::string> arguments = {source_path("recipes/llama3_405b.json"), "--topology",
                                              source_path("recipes/topologies/h100_256nodes.json"), "--ranks", "2048"};
  const SubprocessResult text = plan(arguments);
  INFO(text.err);
  REQUIRE(text.exit_code == 0);
  CHECK(longest_line(text.out) <= 100);
  auto with_json = arguments;
  with_json.emplace_back("--json");
  const auto value = nlohmann::json::parse(plan(with_json).out);
  CHECK(value["parameters"] == 405'853'388'800);  // of the published model
  CHECK(value["ranks"].size() == 2048);
  CHECK(value["ranks"][2047]["host"] == "n256");
  CHECK(value["verdict"]["fits"] == true);
}

TEST_CASE("a run counts what was planned, to the byte, the message and the FLOP", "[cli]") {
  LaunchFixture fixture(3);
  fixture.use_real_worker();
  const SubprocessResult launched = fixture.launch({"--launcher", "threads", "--ranks", "4"}, "", 120);
  INFO(launched.out << launched.err);
  REQUIRE(launched.exit_code == 0);
  const std::string run_dir = fixture.run_dir().string();
  const SubprocessResult equal = plan({fixture.recipe, "--against", run_dir});
  INFO(equal.out << equal.err);
  CHECK(equal.exit_code == 0);
  CHECK_THAT(equal.out, Contains("equal: every byte"));
  CHECK(longest_line(equal.out) <= 100);
  const SubprocessResult other = plan({fixture.recipe, "--against", run_dir, "--json", "--set", "model.d_ff=160"});
  CHECK(other.exit_code == 2);
  CHECK(nlohmann::json::parse(other.out)["equal"] == false);
  CHECK(plan({fixture.recipe, "--against", run_dir, "--ranks", "2"}).exit_code == 2);
  CHECK(plan({fixture.recipe, "--against", (fixture.folder.path() / "absent").string()}).exit_code == 2);
}

}  // namespace trainctl::testing
