// tests/unit/trainer/saved_states_test.cpp -- who tells of a saved state, and who is believed when others are gone.
#include "trainer/saved_states.h"

#include <filesystem>
#include <fstream>

#include "../data/data_test_support.h"
#include "checkpoint/format.h"
#include "support/catch.h"

namespace trainctl {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using testing::ScratchFolder;

std::string event(const std::string& level, int64_t step) {
  return "{\"step\":" + std::to_string(step) + ",\"level\":\"" + level + "\",\"text\":\"x\"}\n";
}

struct RunFolder {
  ScratchFolder folder;
  RunPaths paths{folder.path()};
  RunFolder() { fs::create_directories(paths.checkpoints()); }
  void events(const std::string& text) const { std::ofstream(paths.events(), std::ios::binary) << text; }
  void latest(const std::string& text) const {
    std::ofstream(paths.checkpoints() / "LATEST", std::ios::binary) << text;
  }
  int64_t newest(const RunRecord& seen = {}) const { return newest_saved(paths, seen).step; }
};

}  // namespace

TEST_CASE("events tell of the newest save of the branch that the run is on", "[trainer][saved]") {
  const RunFolder run;
  CHECK(run.newest() == 0);
  run.events(event("start", 0) + event("saved", 2) + event("saved", 4));
  CHECK(run.newest() == 4);
  run.events(event("start", 0) + event("saved", 2) + event("saved", 8) + event("start", 2));
  CHECK(run.newest() == 2);
  run.events(event("start", 0) + event("saved", 2) + event("start", 0));
  CHECK(run.newest() == 0);
  run.events(event("start", 100));  // the state of another run
  CHECK(run.newest() == 0);
}

TEST_CASE("whatever became of events.jsonl, launch.json or LATEST still tells", "[trainer][saved]") {
  const RunFolder run;
  const std::string deep(5000, '[');
  for (const std::string& damage :
       {std::string(), std::string("\xff\x00noise\n", 8), std::string("{}\n[]\nnull\n1\n\"x\"\n"), deep + "\n",
        std::string("{\"step\":null,\"level\":\"saved\"}\n{\"step\":\"4\",\"level\":\"saved\"}\n"),
        std::string("{\"step\":4,\"level\":[\"saved\"]}\n{\"step\":4}\n{\"step\":1e300,\"level\":\"saved\"}\n"),
        std::string("{\"step\":18446744073709551615,\"level\":\"saved\"}\n")}) {
    INFO(damage.substr(0, 60));
    run.events(damage);
    CHECK(run.newest() == 0);
    CHECK(run.newest({.last_step = 5, .saved_step = 4}) == 4);
    CHECK_THAT(lost_states(run.paths, {5, 4}), Contains("saved one of step 4") && Contains("launch.json"));
    run.latest(to_text(Latest{6, folder_name_of(6), std::string(64, 'a')}));
    CHECK(run.newest() == 6);
    CHECK_THAT(lost_states(run.paths, {}), Contains("saved one of step 6") && Contains("LATEST"));
    for (const std::string& torn : {std::string(), std::string("{}"), std::string("null"), deep}) {
      run.latest(torn);
      CHECK(run.newest() == 0);
      CHECK(lost_states(run.paths, {}).empty());
    }
  }
  fs::remove(run.paths.events());
  CHECK(run.newest({.last_step = 5, .saved_step = 4}) == 4);
}

TEST_CASE("a newer state that is not there is told, one that is or was told before is not", "[trainer][saved]") {
  const RunFolder run;
  run.events(event("start", 0) + event("saved", 2) + event("saved", 4));
  RestoreResult found;
  found.step = 4;
  CHECK(newer_than_found(run.paths, {}, found).empty());
  found.step = 2;
  const std::string told = newer_than_found(run.paths, {}, found);
  CHECK_THAT(told, Contains("step 4 was saved") && Contains("is not there; the run continues from step 2"));
  found.rejected = {(run.paths.checkpoints() / "step-00000004").string() + ": LATEST names it"};
  CHECK(newer_than_found(run.paths, {}, found).empty());
  found.rejected.clear();
  fs::create_directory(run.paths.checkpoints() / "step-00000004");
  CHECK(newer_than_found(run.paths, {}, found).empty());
}

TEST_CASE("a start anew says which steps are gone", "[trainer][saved]") {
  const RunFolder run;
  CHECK(anew_remarks(run.paths, {}).empty());
  CHECK(anew_remarks(run.paths, {.last_step = 3}).size() == 2);
  CHECK_THAT(anew_remarks(run.paths, {.last_step = 3}).back(), Contains("step 3") && Contains("is not there"));
  std::ofstream(run.paths.metrics()) << "";
  CHECK(anew_remarks(run.paths, {}).empty());
  CHECK_THAT(anew_remarks(run.paths, {.last_step = 3}).back(), Contains("is empty"));
  std::ofstream(run.paths.metrics()) << "{\"step\":1,\"loss\":1}\n";
  CHECK(anew_remarks(run.paths, {.last_step = 3}).size() == 1);
}

}  // namespace trainctl
