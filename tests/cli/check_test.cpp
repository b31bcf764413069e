// tests/cli/check_test.cpp -- `trainctl check`: every fault at once, with place and rule; nothing crashes or hangs.
#include <nlohmann/json.hpp>

#include "support/catch.h"
#include "support/launch_fixture.h"

namespace trainctl::testing {
namespace {

using Catch::Contains;
using Catch::StartsWith;

SubprocessResult check(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {program("trainctl"), "check"});
  return run(arguments);
}

}  // namespace

TEST_CASE("a good recipe gives 0 and its smallest world, as words and as JSON", "[cli]") {
  const LaunchFixture fixture;
  const SubprocessResult words = check({fixture.recipe});
  INFO(words.err);
  CHECK(words.exit_code == 0);
  CHECK_THAT(words.out, Contains("no faults") && Contains("smallest world 2 ranks"));
  const SubprocessResult json = check({fixture.recipe, "--json", "--ranks", "4", "--set", "optimizer.lr=0.5"});
  REQUIRE(json.exit_code == 0);
  const auto value = nlohmann::json::parse(json.out);
  CHECK(value["ok"] == true);
  CHECK(value["resolved"]["optimizer"]["lr"] == 0.5);
  CHECK(value["resolved"]["parallelism"]["data_parallel"] == 2);
  CHECK(value["overrides"][0] == "optimizer.lr=0.5");
}

TEST_CASE("all faults are listed at once with line, column, key and the nearest legal key", "[cli]") {
  const TemporaryFolder folder;
  const std::string file = folder.file("bad.json", R"({
  "name": "bad",
  "model": { "family": "lama", "layers": "four", "d_model": 64, "heads": 4, "d_ff": 128, "vocab": 257 },
  "data": { "train": [ { "path": "x" } ], "sequence_tokens": 32 },
  "optimizer": { "learning_rat": 1e-3 },
  "runtime": { "steps": 0, "micro_batch_size": 1, "global-batch-size": 4 }
})");
  const SubprocessResult r = check({file});
  CHECK(r.exit_code == 2);
  CHECK(r.out.empty());
  CHECK_THAT(r.err, StartsWith("trainctl: config: "));
  for (const char* part :
       {"model.family", "lama", "llama", "model.layers", "learning_rat", "global_batch_size", ":3:", ":5:"})
    CHECK_THAT(r.err, Contains(part));
  const SubprocessResult json = check({file, "--json"});
  CHECK(json.exit_code == 2);
  const auto value = nlohmann::json::parse(json.out);
  CHECK(value["ok"] == false);
  CHECK(value["faults"].size() >= 4);
}

TEST_CASE("files that are no recipe end with 2 and say why", "[cli]") {
  const TemporaryFolder folder;
  std::string deep(100000, '[');
  const std::vector<std::pair<std::string, std::string>> files = {{"empty", ""},
                                                                  {"null", "null"},
                                                                  {"list", "[]"},
                                                                  {"cut", "{\"name\": "},
                                                                  {"deep", deep},
                                                                  {"binary", std::string("\0\1\2\377", 4)},
                                                                  {"twice", "{\"name\": \"a\", \"name\": \"b\"}"},
                                                                  {"comment", "{ // x\n}"},
                                                                  {"huge", "{\"runtime\": {\"steps\": 1e400}}"},
                                                                  {"bom", "\xef\xbb\xbf{}"}};
  for (const auto& [name, content] : files) {
    INFO(name);
    const SubprocessResult r = check({folder.file(name + ".json", content)});
    CHECK(r.exit_code == 2);
    CHECK_FALSE(r.timed_out);
    CHECK_THAT(r.err, StartsWith("trainctl: config: "));
  }
  CHECK(check({(folder.path() / "absent.json").string()}).exit_code == 2);
  CHECK(check({folder.path().string()}).exit_code == 2);
}

TEST_CASE("rules of the world's size are checked when it is given", "[cli]") {
  const LaunchFixture fixture;
  CHECK(check({fixture.recipe, "--ranks", "8"}).exit_code == 0);
  const SubprocessResult r = check({fixture.recipe, "--ranks", "3"});
  CHECK(r.exit_code == 2);
  CHECK_THAT(r.err, Contains("tensor_parallel") && Contains("3"));
  CHECK(check({fixture.recipe, "--set", "runtime.step=3"}).exit_code == 2);
  CHECK(check({fixture.recipe, "--set", "nonsense"}).exit_code == 2);
}

}  // namespace trainctl::testing
