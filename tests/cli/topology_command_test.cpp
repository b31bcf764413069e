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
  const SubprocessResult checked = run({program("trainctl"), "topology", "check", file});
  CHECK(checked.exit_code == 0);
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
  const std::string file = folder.file("t.json", R"({"name": "t", "node_types": [{"name": "a", "cors": 4}],
    "nodes": [{"names": "n[3-1]", "type": "b"}]})");
  const SubprocessResult r = run({program("trainctl"), "topology", "check", file});
  CHECK(r.exit_code == 2);
  CHECK_THAT(r.err, Contains("cors") && Contains("cores") && Contains("n[3-1]"));
}

}  // namespace trainctl::testing
