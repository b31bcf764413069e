// tests/training/start_rules_test.cpp -- which state a launch may start from, and what it says of one that differs.
#include <fstream>

#include "support/local_runs.h"

namespace trainctl::testing {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;

using Words = std::vector<std::string>;

Words steps(int64_t count, Words settings = {}, Words more = {}) {
  settings.push_back(kOneRank);
  settings.push_back("optimizer.schedule.kind=constant");
  settings.push_back("checkpoint.keep=9");
  settings.push_back("runtime.steps=" + std::to_string(count));
  return set(settings, std::move(more));
}

std::string step_folder(const std::string& run, int64_t step) {
  std::string digits = std::to_string(step);
  return run + "/checkpoints/step-" + std::string(8 - digits.size(), '0') + digits;
}

}  // namespace

TEST_CASE("weights of the same shapes are not those of a model with other heads", "[training][start]") {
  const Runs runs;
  runs.train("base", steps(2));
  const auto model = runs.inspect("base").at("provenance").at("recipe").at("model");
  const int64_t heads = model.at("heads"), kv = model.at("kv_heads"), dim = model.at("head_dim");
  REQUIRE(dim % 4 == 0);
  const std::string more = std::to_string(2 * heads), half = std::to_string(dim / 2);
  // Twice as many heads of half the width: every tensor has the shape that it had.
  const Words other = {"model.heads=" + more, "model.kv_heads=" + std::to_string(2 * kv), "model.head_dim=" + half};
  const std::string difference = "model.heads is " + more + " here and " + std::to_string(heads) + " there";
  const auto told = [&](const SubprocessResult& r) {
    refused(r, 5, difference);
    CHECK_THAT(r.err, Contains("model.heads to " + std::to_string(heads)));
    CHECK(r.err.find("has the shape") == std::string::npos);
  };
  told(runs.launch("new", steps(2, other, {"--init-from", "base"})));
  CHECK_FALSE(fs::exists(runs.path() / "new"));
  told(runs.launch("base", steps(4, other)));
  told(runs.launch("newer", steps(4, other, {"--resume", "base"})));
  // Imported weights record their model too.
  REQUIRE(runs.trainctl({"checkpoint", "export", "base", "--to", "hf", "--output", "hf"}).exit_code == 0);
  REQUIRE(runs.trainctl({"checkpoint", "import", "--from", "hf", "hf", "--output", "imported"}).exit_code == 0);
  told(runs.launch("new", steps(2, other, {"--init-from", "imported"})));
  CHECK(runs.metric("base", "loss").size() == 2);
}

TEST_CASE("another rope or norm_eps may be meant, and is told", "[training][start]") {
  const Runs runs;
  runs.train("base", steps(2));
  const Words other = {"model.rope.theta=50000", "model.norm_eps=1e-6"};
  for (const Words& more : {Words{"--init-from", "base"}, Words{"--resume", "base"}}) {
    const std::string run = "from" + more.front();
    const SubprocessResult r = runs.launch(run, steps(3, other, more));
    INFO(r.out << r.err);
    CHECK(r.exit_code == 0);
    CHECK_THAT(r.err, Contains("model.rope.theta is 50000.0 here and 10000 there") &&
                          Contains("model.norm_eps is 1e-06 here and 1e-05 there"));
    // Its own states are of the new function.
    const SubprocessResult again = runs.launch(run, steps(4, other));
    CHECK(again.exit_code == 0);
    CHECK(again.err.find("there") == std::string::npos);
  }
}

TEST_CASE("a stored state that nothing takes is refused by role and key, or by tensor", "[training][start]") {
  const Runs runs;
  runs.train("base", steps(2));
  const SubprocessResult sgd = runs.launch("base", steps(4, {"optimizer.kind=sgd"}));
  refused(sgd, 5, "of role exp_avg are in the checkpoint, and nothing takes them here");
  CHECK_THAT(sgd.err, Contains("optimizer.kind is \"sgd\" here and \"adamw\" there") &&
                          Contains("what to do: restore optimizer.kind to \"adamw\""));
  runs.train("rolling", steps(2, {"optimizer.kind=sgd", "optimizer.momentum=0.9"}));
  refused(runs.launch("rolling", steps(4, {"optimizer.kind=sgd"})), 5, "optimizer.momentum is 0.0 here and 0.9 there");
  const int64_t layers = runs.inspect("base").at("provenance").at("recipe").at("model").at("layers");
  REQUIRE(layers > 1);
  refused(runs.launch("base", steps(4, {"model.layers=" + std::to_string(layers - 1)})), 5, "model.layers is ");
  // As before, with what the checkpoint is of.
  const SubprocessResult r = runs.launch("base", steps(3));
  CHECK(r.exit_code == 0);
  CHECK(r.err.find("another recipe") == r.err.find("another recipe: runtime.steps"));
}

TEST_CASE("a run with states of its own does not go on from another run's", "[training][start]") {
  const Runs runs;
  for (const int64_t count : {1, 2}) runs.train("other", steps(count, {"runtime.seed=9"}));
  for (const int64_t count : {2, 4}) runs.train("run", steps(count));
  const std::string listed = runs.trainctl({"checkpoint", "list", "run", "--json"}).out;
  for (const std::string& from : {std::string("other"), step_folder("other", 1)}) {
    const SubprocessResult r = runs.launch("run", steps(6, {"runtime.seed=9"}, {"--resume", from}));
    refused(r, 2,
            "--resume " + from + ": that is no state of the run in run, which has its own (step 4 is the newest)");
    CHECK_THAT(r.err, Contains("another --run-dir"));
  }
  CHECK(runs.trainctl({"checkpoint", "list", "run", "--json"}).out == listed);
  runs.train("run", steps(5));  // as if nobody had asked
  CHECK(runs.metric("run", "loss").size() == 5);
  // A state that is no longer to be used is no state to go back to.
  for (const auto& entry : fs::directory_iterator(runs.path() / "run/checkpoints"))
    if (entry.path().filename().string().starts_with("step-"))
      REQUIRE(runs.trainctl({"checkpoint", "mark", "unusable", entry.path().string(), "--reason", "test"}).exit_code ==
              0);
  const SubprocessResult taken =
      runs.launch("run", steps(3, {"runtime.seed=9"}, {"--resume", step_folder("other", 2)}));
  INFO(taken.err);
  CHECK(taken.exit_code == 0);
}

TEST_CASE("weights from a run that has newer, unusable states: those are named", "[training][start]") {
  const Runs runs;
  for (const int64_t count : {2, 4}) runs.train("base", steps(count));
  REQUIRE(runs.trainctl({"checkpoint", "mark", "unusable", step_folder("base", 4), "--reason", "spike"}).exit_code ==
          0);
  const SubprocessResult r = runs.launch("new", steps(2, {}, {"--init-from", "base"}));
  INFO(r.err);
  CHECK(r.exit_code == 0);
  CHECK_THAT(r.err, Contains("passed over ") && Contains("step-00000004 (unusable): marked unusable") &&
                        Contains("spike") && Contains("starts from the weights of"));
}

TEST_CASE("a first launch that is refused makes no run", "[training][start]") {
  const Runs runs;
  runs.train("base", steps(2));
  const Words wide = {"model.d_ff=96"};
  refused(runs.launch("new", steps(2, wide, {"--resume", "base"})), 5, "model.d_ff is 96 here");
  CHECK_FALSE(fs::exists(runs.path() / "new/launch.json"));
  runs.train("new", steps(2, {}, {"--init-from", "base"}));
  CHECK(runs.metric("new", "loss").size() == 2);
  // A number alone is taken for a step of the run: the answer names it.
  refused(runs.launch("new", steps(3, {}, {"--resume", "2"})), 5, "step-00000002");
}

TEST_CASE("what launch.json remembers is never forgotten silently", "[training][start]") {
  const Runs runs;
  runs.train("base", steps(2));
  runs.train("new", steps(1, {"checkpoint.at_end=false"}, {"--init-from", "base"}));
  const fs::path file = runs.path() / "new/launch.json";
  const std::string good = read_text(file);
  for (const std::string& text : {good.substr(0, good.size() / 2), std::string("{"), std::string()}) {
    std::ofstream(file, std::ios::trunc) << text;
    refused(runs.launch("new", steps(2)), 2, "launch.json says what the run started from");
  }
  std::ofstream(file, std::ios::trunc) << good;
  const SubprocessResult r = runs.launch("new", steps(2));
  CHECK(r.exit_code == 0);
  CHECK_THAT(r.err, Contains("starts from the weights of"));
}

TEST_CASE("a state from elsewhere with all steps done leaves nothing to do", "[training][start]") {
  const Runs runs;
  runs.train("base", steps(3));
  for (const std::string& from : {std::string("base"), step_folder("base", 3)})
    for (const int64_t count : {3, 2}) {
      const SubprocessResult r = runs.launch("new", steps(count, {}, {"--resume", from}));
      INFO(r.out << r.err);
      CHECK(r.exit_code == 0);
      CHECK_THAT(r.out, Contains("nothing to do: all "));
    }
  runs.train("new", steps(4));
  CHECK(runs.metric("new", "loss").size() == 1);
}

TEST_CASE("with nothing usable the advice is one that works", "[training][start]") {
  const Runs runs;
  runs.train("run", steps(2));
  REQUIRE(runs.trainctl({"checkpoint", "mark", "unusable", "run", "--reason", "test"}).exit_code == 0);
  refused(runs.launch("run", steps(3)), 5, "what to do: where only a mark is in the way");
  refused(runs.launch("run", steps(3, {}, {"--resume", "never"})), 2, "another --run-dir");
}

TEST_CASE("metrics that are not those of the branch that goes on are told", "[training][start]") {
  const Runs runs;
  for (const int64_t count : {2, 4, 8}) runs.train("run", steps(count));
  // Back to 2 and on to 5, then the old branch is taken back: its lines beyond 5 were dropped, those up to 5 are new.
  REQUIRE(runs.launch("run", steps(5, {"optimizer.lr=5e-3"}, {"--resume", step_folder("run", 2)})).exit_code == 0);
  REQUIRE(runs.trainctl({"checkpoint", "mark", "usable", step_folder("run", 8)}).exit_code == 0);
  const SubprocessResult back = runs.launch("run", steps(9));
  INFO(back.err);
  CHECK(back.exit_code == 0);
  CHECK_THAT(back.err, Contains("has no line of steps 6 to 8"));
  // The same, with the line there but of the other branch: 4 is of the first, and the metrics say what the second saw.
  REQUIRE(runs.trainctl({"checkpoint", "mark", "unusable", step_folder("run", 9), "--reason", "test"}).exit_code == 0);
  REQUIRE(runs.trainctl({"checkpoint", "mark", "unusable", step_folder("run", 8), "--reason", "test"}).exit_code == 0);
  REQUIRE(runs.trainctl({"checkpoint", "mark", "unusable", step_folder("run", 5), "--reason", "test"}).exit_code == 0);
  REQUIRE(runs.trainctl({"checkpoint", "mark", "usable", step_folder("run", 4)}).exit_code == 0);
  const SubprocessResult mixed = runs.launch("run", steps(6));
  INFO(mixed.err);
  CHECK(mixed.exit_code == 0);
  CHECK_THAT(mixed.err, Contains("its lines are of another branch") && !Contains("has no line"));
  // Lines that were taken away, or that are none.
  const fs::path metrics = runs.path() / "run/metrics.jsonl";
  const std::string lines = read_text(metrics);
  const auto starts = [&](const std::string& text) {
    std::ofstream(metrics, std::ios::trunc) << text;
    return runs.launch("run", steps(6)).err;
  };
  CHECK_THAT(starts(""), Contains("metrics.jsonl has no line of the steps up to 6, which this run has made"));
  CHECK_THAT(starts("no metrics\n"), Contains("metrics.jsonl has no line of the steps up to 6"));
  CHECK(starts(lines).find("metrics.jsonl") == std::string::npos);
  fs::remove(metrics);
  CHECK_THAT(runs.launch("run", steps(6)).err, Contains("metrics.jsonl has no line of the steps up to 6"));
  const SubprocessResult noise = [&] {
    std::ofstream(metrics, std::ios::trunc) << "noise\n" + lines;
    return runs.launch("run", steps(7));
  }();
  CHECK_THAT(noise.out, Contains("done: 1 step,"));
  CHECK_THAT(noise.err, Contains("left out 1 line that could not be read"));
  CHECK(read_text(metrics.string() + ".1").starts_with("noise\n"));
  // And silence where all is well.
  const SubprocessResult well = runs.launch("run", steps(8));
  CHECK(well.exit_code == 0);
  CHECK(well.err.find("metrics.jsonl") == std::string::npos);
}

}  // namespace trainctl::testing
