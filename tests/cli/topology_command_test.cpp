// tests/cli/topology_command_test.cpp -- `trainctl topology discover|show|check`.
#include <nlohmann/json.hpp>

#include "support/catch.h"
#include "support/launch_fixture.h"

namespace trainctl::testing {

using Catch::Contains;

TEST_CASE("what discover writes passes check, and show reads it", "[cli]") {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "here.json").string();
  REQUIRE(run({program("trainctl"), "topology", "discover", "--no-measure", "--output", file}).exit_code == 0);
  const SubprocessResult again = run({program("trainctl"), "topology", "discover", "--no-measure", "--output", file});
  CHECK(again.exit_code == 2);
  CHECK_THAT(again.err, Contains("would be overwritten") && Contains("--force"));
  const SubprocessResult checked = run({program("trainctl"), "topology", "check", file});
  CHECK(checked.exit_code == 0);
  CHECK_THAT(checked.out, Contains("no faults, 1 host\n"));
  CHECK_THAT(checked.out, Contains("no faults"));
  CHECK_THAT(run({program("trainctl"), "topology", "show", file}).out, Contains("cores") && Contains("slots"));
  const SubprocessResult json = run({program("trainctl"), "topology", "show", file, "--json"});
  CHECK(nlohmann::json::parse(json.out)["node_types"][0]["cores"].get<int>() >= 1);
}

TEST_CASE("every topology in recipes/topologies is free of faults", "[cli]") {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_path("recipes/topologies"))) {
    INFO(entry.path());
    CHECK(run({program("trainctl"), "topology", "check", entry.path().string()}).exit_code == 0);
    CHECK(run({program("trainctl"), "topology", "show", entry.path().string()}).exit_code == 0);
    ++files;
  }
  CHECK(files >= 1);
}

TEST_CASE("a topology with faults gives 2 and lists them all", "[cli]") {
  const TemporaryFolder folder;
  const auto check = [&](const std::string& text) {
    return run({program("trainctl"), "topology", "check", folder.file("t.json", text)});
  };
  const SubprocessResult keys = check(R"({"name": "t", "node_types": [{"name": "a", "cors": 4, "memory_bytes": 0}],
    "nodes": []})");
  CHECK(keys.exit_code == 2);
  CHECK_THAT(keys.err, Contains("cors") && Contains("cores") && Contains("memory_bytes"));
  const SubprocessResult references =
      check(R"({"name": "t", "node_types": [{"name": "a", "cores": 1, "memory_bytes": 1}],
    "nodes": [{"names": "n[3-1]", "type": "a"}, {"names": "m", "type": "b"}]})");
  CHECK(references.exit_code == 2);
  CHECK_THAT(references.err, Contains("n[3-1]") && Contains("\"b\""));
}

}  // namespace trainctl::testing
