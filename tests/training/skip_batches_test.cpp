// tests/training/skip_batches_test.cpp -- `trainctl launch --skip-batches`: what samples.jsonl says was taken, and what
// was passed over.
#include "data_project.h"
#include "support/catch.h"

namespace trainctl::testing {

using Catch::Contains;
using nlohmann::json;

TEST_CASE("batches skipped after a rollback are skipped once, over crashes, resumes and layouts", "[training][data]") {
  const Project project;
  project.train("run", 1, 16, {"checkpoint.every_steps=4", "checkpoint.keep=9"});
  const Samples whole = [&] {
    project.train("whole", 1, 24);
    return project.samples("whole");
  }();
  const Words rollback = {"--resume", project.checkpoint("run", 8), "--skip-batches", "3"};
  // Nothing is saved: for the run that is a crash before its first save.
  const Words unsaved = {"checkpoint.at_end=false"};
  const std::string told = project.train("run", 1, 10, unsaved, rollback);
  CHECK_THAT(told, Contains("skips 3 batches after step 8: samples 32 to 43 (--skip-batches)") &&
                       Contains("the skipped samples are 8 of \"data/a\" (0.") && Contains("4 of \"data/b\" (0."));
  CHECK(project.samples("run", 8) == part(whole, 44, 8));
  for (const int64_t step : {int64_t{12}, int64_t{16}})
    CHECK(project.inspect(project.checkpoint("run", step))["state"] == "unusable");
  // A plain relaunch, twice.
  CHECK_THAT(project.train("run", 2, 11, unsaved), Contains("skips 3 batches"));
  CHECK_THAT(project.train("run", 2, 13), Contains("skips 3 batches"));
  CHECK(project.samples("run", 8) == part(whole, 44, 20));
  // Now the run has a state that comes after the gap.
  const std::string later = project.train("run", 2, 18, {"parallelism.tensor_parallel=2"});
  CHECK(later.find("skip") == std::string::npos);
  CHECK(project.samples("run", 8) == part(whole, 44, 40));
  int64_t notes = 0;
  for (const json& event : project.lines("run/events.jsonl"))
    notes += event["text"].get<std::string>().find("skips 3 batches") != std::string::npos;
  CHECK(notes == 3);
  const json scalars = project.inspect("run")["scalars"];
  CHECK(scalars["consumed_samples"] == 18 * kBatch + 12);
  CHECK(scalars["consumed_tokens"] == 18 * kBatch * kSequence);
  CHECK(scalars["data_state"]["skipped"] == json::parse(R"([{"after_step": 8, "first": 32, "count": 12}])"));
  CHECK(project.lines("run/metrics.jsonl").back()["consumed_tokens"] == 18 * kBatch * kSequence);

  // Back again, without skipping: an explicit --resume forgets it. And in a run of its own, from elsewhere.
  project.train("run", 1, 10, {}, {"--resume", project.checkpoint("run", 8)});
  CHECK(project.samples("run", 8) == part(whole, 32, 8));
  const Words elsewhere = {"--resume", project.checkpoint("run", 8), "--skip-batches", "1"};
  const auto of_steps = [&project](const std::string& run_dir) {
    Samples out;
    for (const json& line : project.lines(run_dir + "/samples.jsonl"))
      for (const json& id : line["samples"]) out.push_back(id.get<std::vector<int64_t>>());
    return out;
  };
  project.train("branch", 1, 10, unsaved, elsewhere);
  CHECK_THAT(project.train("branch", 1, 11), Contains("as it was told before") && Contains("skips 1 batch"));
  project.train("branch", 1, 12);
  CHECK(of_steps("branch") == part(whole, 36, 16));
}

TEST_CASE("a run that falls back to a checkpoint passes over again what was asked for after it, not only the last time",
          "[training][data]") {
  const Project project;
  const Words often = {"checkpoint.every_steps=4", "checkpoint.keep=9"};
  project.train("whole", 1, 24);
  const Samples whole = project.samples("whole");
  const auto back_to = [&](int64_t step, const std::string& batches) {
    return Words{"--resume", project.checkpoint("run", step), "--skip-batches", batches};
  };
  const auto damage = [&](int64_t step) {
    REQUIRE(project.trainctl({"checkpoint", "mark", "unusable", project.checkpoint("run", step), "--reason", "test"})
                .exit_code == 0);
  };
  project.train("run", 1, 8, often);
  project.train("run", 1, 12, often, back_to(4, "1"));
  project.train("run", 1, 12, often, back_to(8, "2"));
  Samples taken = part(whole, 0, 16);
  const auto more = [&](int64_t from, int64_t count) {
    for (const std::vector<int64_t>& id : part(whole, from, count)) taken.push_back(id);
  };
  more(20, 16);  // steps 5 to 8
  more(44, 16);  // steps 9 to 12
  CHECK(project.samples("run") == taken);
  // The newest is lost: from step 8 on the same again.
  damage(12);
  CHECK_THAT(project.train("run", 2, 12, often),
             Contains("skips 2 batches after step 8") && !Contains("does not apply"));
  CHECK(project.samples("run") == taken);
  // That of step 8 too: what was passed over after step 4 is once more; the other was for a state that is not there.
  damage(12);
  damage(8);
  CHECK_THAT(project.train("run", 2, 12, often),
             Contains("skips 1 batch after step 4") && Contains("--skip-batches 2 was for the checkpoint of step 8"));
  taken.resize(32);
  more(36, 16);
  CHECK(project.samples("run") == taken);
  // One that goes back further, or to the same state without skipping, leaves it out for good.
  project.train("run", 1, 5, {"checkpoint.at_end=false"}, {"--resume", project.checkpoint("run", 4)});
  CHECK_THAT(project.train("run", 1, 6), !Contains("skip"));
  CHECK(project.samples("run") == part(whole, 0, 24));
}

TEST_CASE("--skip-batches without one named checkpoint is refused, and says so when it did not come to be",
          "[training][data]") {
  const Project project;
  project.train("run", 1, 4, {"checkpoint.every_steps=2"});
  const auto refused = [&](const Words& more, int code, const std::string& why) {
    const SubprocessResult r = project.launch("run", 1, 6, {}, more);
    INFO(r.err);
    CHECK(r.exit_code == code);
    CHECK_THAT(r.err, Contains(why));
  };
  refused({"--skip-batches", "2"}, 2, "--skip-batches 2");
  refused({"--skip-batches", "2", "--resume", "auto"}, 2, "--resume is auto");
  refused({"--skip-batches", "2", "--resume", "never"}, 2, "--resume is never");
  refused({"--skip-batches", "2", "--resume", "run"}, 2, "--resume is run");
  refused({"--skip-batches", "2", "--init-from", "run"}, 2, "--skip-batches 2");
  refused({"--skip-batches", "0", "--resume", project.checkpoint("run", 2)}, 2, "--skip-batches");
  refused({"--skip-batches", "2", "--resume", project.checkpoint("run", 3)}, 5, "no such checkpoint");
  // Refused by the ranks: the run goes on as if it had not been asked for.
  const SubprocessResult r = project.launch("run", 1, 6, {"runtime.seed=9"},
                                            {"--skip-batches", "2", "--resume", project.checkpoint("run", 2)});
  CHECK(r.exit_code == 5);
  CHECK_THAT(project.train("run", 1, 6), !Contains("skip"));
  CHECK(project.samples("run").size() == 6 * kBatch);
}

}  // namespace trainctl::testing
