// tests/training/run_files_test.cpp -- files of a run directory that were lost, damaged, doubled or put elsewhere.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "support/hostile_json.h"
#include "support/local_runs.h"

namespace trainctl::testing {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;

using Words = std::vector<std::string>;

Words steps(int64_t count, Words settings = {}, Words more = {}) {
  for (const char* value : {"optimizer.schedule.kind=constant", "data.log_samples=true", "checkpoint.every_steps=2",
                            "checkpoint.keep=9", "checkpoint.async=false"})
    settings.insert(settings.begin(), value);
  settings.push_back(kOneRank);
  settings.push_back("runtime.steps=" + std::to_string(count));
  return set(settings, std::move(more));
}

// A run named "run", its files, and what its metrics say: losses by step, each step once.
struct OneRun {
  Runs runs;
  fs::path root = runs.path() / "run", metrics = root / "metrics.jsonl", events = root / "events.jsonl",
           checkpoints = root / "checkpoints";
  explicit OneRun(int64_t count, const Words& settings = {}) { runs.train("run", steps(count, settings)); }
  SubprocessResult launch(int64_t count, const Words& settings = {}, const Words& more = {}) const {
    return runs.launch("run", steps(count, settings, more));
  }
  fs::path state(int64_t step) const { return checkpoints / ("step-0000000" + std::to_string(step)); }
  std::map<int64_t, double> losses() const {
    const auto values = runs.metric("run", "loss");
    CHECK(count_of(read_text(metrics), "\"loss\"") == std::ssize(values));
    return values;
  }
};

void write(const fs::path& file, const std::string& text) { std::ofstream(file, std::ios::binary) << text; }

}  // namespace

TEST_CASE("that a run saved is told by more than events.jsonl", "[training][files]") {
  const OneRun run(4);
  const std::string before = read_text(run.metrics), good = read_text(run.events);
  fs::remove_all(run.checkpoints);
  for (const std::string& text : {std::string(), std::string("\xff\xfe no event\n{}\n[]\n"), good.substr(0, 20)}) {
    write(run.events, text);
    const SubprocessResult r = run.launch(6);
    refused(r, 5, "saved one of step 4");
    CHECK_THAT(r.err, Contains("launch.json"));
    CHECK(read_text(run.metrics) == before);
  }
  fs::remove(run.events);
  refused(run.launch(6), 5, "saved one of step 4");
  CHECK(read_text(run.metrics) == before);
}

TEST_CASE("a newest state that is gone without a trace among the checkpoints is told", "[training][files]") {
  const OneRun run(6);
  const auto first = run.losses();
  const auto take_away = [&run] {
    fs::remove_all(run.state(6));
    fs::remove(run.checkpoints / "LATEST");
  };
  take_away();
  const SubprocessResult r = run.launch(6);
  INFO(r.out << r.err);
  REQUIRE(r.exit_code == 0);
  CHECK_THAT(r.err, Contains("step 6 was saved") && Contains("the run continues from step 4"));
  CHECK(run.losses() == first);
  CHECK_THAT(run.launch(6).err, !Contains("was saved"));
  // Who names an older state has left the newer ones; when they are gone, nobody misses them.
  REQUIRE(run.launch(4, {}, {"--resume", run.state(4).string()}).exit_code == 0);
  take_away();
  const SubprocessResult back = run.launch(6);
  CHECK(back.exit_code == 0);
  CHECK_THAT(back.err, !Contains("was saved"));
  CHECK(run.losses() == first);
}

TEST_CASE("a run without a checkpoint starts anew and keeps the lines of its first start", "[training][files]") {
  const Words unsaved = {"checkpoint.every_steps=50", "checkpoint.at_end=false"};
  const OneRun run(2, unsaved);
  const std::string samples = (run.root / "samples.jsonl").string();
  const std::string before = read_text(run.metrics), drawn = read_text(samples);
  const SubprocessResult again = run.launch(3, unsaved);
  INFO(again.out << again.err);
  REQUIRE(again.exit_code == 0);
  CHECK_THAT(again.err, Contains("training starts anew") && Contains("kept in metrics.jsonl.1"));
  CHECK(read_text(run.metrics.string() + ".1") == before);
  CHECK(read_text(samples + ".1") == drawn);
  CHECK(run.losses().size() == 3);
  fs::remove(run.metrics);
  const SubprocessResult gone = run.launch(3, unsaved);
  CHECK(gone.exit_code == 0);
  CHECK_THAT(gone.err, Contains("had come to step 3") && Contains("metrics.jsonl is not there"));
}

TEST_CASE("metrics.jsonl may be a link to another disk, and hold noise and doubles", "[training][files]") {
  const OneRun run(4);
  const fs::path disk = run.runs.path() / "disk";
  const std::string lines = read_text(run.metrics), noisy = "noise\n" + lines + lines + "{\"step\":3}\n";
  const auto first = run.losses();
  fs::create_directory(disk);
  fs::remove(run.metrics);
  write(disk / "m", noisy);
  fs::create_symlink(disk / "m", run.metrics);
  const SubprocessResult r = run.launch(6);
  INFO(r.err);
  REQUIRE(r.exit_code == 0);
  CHECK_THAT(r.err,
             Contains("left out 2 lines that could not be read, ") && Contains("lines of steps that it has twice"));
  CHECK(fs::is_symlink(run.metrics));
  CHECK(read_text(disk / "m").starts_with(lines));
  CHECK(run.losses().size() == 6);
  CHECK(read_text(run.metrics.string() + ".1") == noisy);
  CHECK(std::distance(fs::directory_iterator(disk), {}) == 1);
  CHECK_THAT(run.launch(6).err, !Contains("left out"));
}

TEST_CASE("wrong JSON in a file of a run is told with its name, and what others tell is gone on with",
          "[training][files]") {
  const OneRun run(2);
  const auto losses = run.losses();
  const fs::path launch = run.root / "launch.json";
  const std::string good = read_text(launch), recipe = (run.runs.path() / "recipe.json").string();
  const auto named = [](const SubprocessResult& r, const std::string& file) {
    INFO(r.out << r.err);
    CHECK(r.exit_code == 2);
    CHECK_THAT(r.err, Contains(file) && !Contains("internal") && !Contains("json.exception"));
  };
  const std::vector<std::string> texts = hostile_json();
  for (size_t i = 0; i < texts.size(); i += 3) {  // the readers alone meet all of them
    const std::string& text = texts[i];
    INFO(text.substr(0, 60));
    write(launch, text);
    const SubprocessResult damaged = run.launch(2);
    named(damaged, "launch.json");
    CHECK_THAT(damaged.err, Contains("put the file back, or go on from a checkpoint"));
    write(launch, good);
    for (const char* file : {"recipe.json", "events.jsonl", "metrics.jsonl", "plan.json", "counters.json"})
      write(run.root / file, text + "\n");
    named(run.runs.trainctl({"plan", recipe, "--ranks", "1", "--set", kOneRank, "--against", "run"}),
          "run/counters.json");
    const SubprocessResult r = run.launch(2);
    INFO(r.out << r.err);
    CHECK(r.exit_code == 0);
    CHECK_THAT(r.out, Contains("nothing to do"));
    CHECK_THAT(r.err, Contains("recipe.json cannot be read ("));
    CHECK_THAT(r.err, Contains("metrics.jsonl has no line of the steps up to 2"));
    if (!text.empty()) CHECK_THAT(r.err, Contains("metrics.jsonl: left out 1 line"));
  }
  CHECK_THAT(run.launch(2).err, !Contains("recipe.json"));
}

TEST_CASE("a pipe, a folder or a link to nothing in the place of a run's file is named, and nothing waits on it",
          "[training][files]") {
  const OneRun run(2);
  const auto losses = run.losses();
  for (const char* name : {"launch.json", "recipe.json", "plan.json", "counters.json", "metrics.jsonl", "samples.jsonl",
                           "events.jsonl", "stop.request", "lock", "ranks.lock", "checkpoints", "logs", "errors"}) {
    const fs::path place = run.root / name, aside = run.root.string() + ".aside";
    INFO(name);
    if (fs::exists(place)) fs::rename(place, aside);
    const bool folder = fs::is_directory(aside);
    REQUIRE(::mkfifo(place.c_str(), 0600) == 0);
    refused(run.launch(2), 3, "run/" + std::string(name) + " is a pipe");
    fs::remove(place);
    if (folder)
      write(place, "");
    else
      fs::create_directory(place);
    refused(run.launch(2), 3, "run/" + std::string(name) + (folder ? " is a file" : " is a folder"));
    fs::remove(place);
    fs::create_symlink("/nonexistent/x", place);
    refused(run.launch(2), 3, "run/" + std::string(name) + " is a link to \"/nonexistent/x\", which is not there");
    fs::remove(place);
    if (fs::exists(aside)) fs::rename(aside, place);
  }
  const SubprocessResult r = run.launch(3);
  INFO(r.err);
  CHECK(r.exit_code == 0);
  CHECK(run.losses().size() == 3);
}

TEST_CASE("a lost recipe.json is told, a lost launch.json refused with what to do, which works", "[training][files]") {
  const OneRun run(2);
  fs::remove(run.root / "recipe.json");
  const SubprocessResult lost = run.launch(3, {"optimizer.lr=0.5"});
  INFO(lost.err);
  CHECK(lost.exit_code == 0);
  CHECK_THAT(lost.err,
             Contains("recipe.json is not there") && Contains("runtime.steps: 2 -> 3") && Contains("optimizer.lr: "));
  CHECK(fs::exists(run.root / "recipe.json"));
  fs::remove(run.root / "launch.json");
  refused(run.launch(4), 2, "no launch.json; launch.json says what the run started from");
  CHECK_THAT(run.launch(4).err,
             Contains("put the file back, or go on from a checkpoint of this run in another --run-dir"));
  const SubprocessResult other = run.runs.launch("other", steps(4, {}, {"--resume", "run"}));
  CHECK(other.exit_code == 0);
  CHECK_THAT(other.err, Contains("continues after step 3"));
}

TEST_CASE("a state of the run is one under any of its names", "[training][files]") {
  const OneRun run(4);
  const auto first = run.losses();
  const fs::path names = run.runs.path() / "names";
  fs::create_directory(names);
  fs::create_symlink(run.state(2), names / "good");
  fs::create_symlink(run.root, names / "a run");
  fs::create_symlink(names / "good", names / "again");
  for (const fs::path& name : {names / "good", names / "again", names / "a run/checkpoints/step-00000002"}) {
    const SubprocessResult r = run.launch(4, {}, {"--resume", name.string()});
    INFO(name.string() << "\n" << r.err);
    CHECK(r.exit_code == 0);
    CHECK_THAT(r.err, Contains("continues after step 2"));
    CHECK(run.losses() == first);
  }
  const SubprocessResult newest = run.launch(5, {}, {"--resume", (names / "a run").string()});
  CHECK(newest.exit_code == 0);
  CHECK_THAT(newest.err, Contains("continues after step 4"));
}

TEST_CASE("another run's state that was named is gone on from until something is saved behind it",
          "[training][files]") {
  const OneRun run(4);
  run.runs.train("other", steps(8, {"runtime.seed=9"}));
  const fs::path copied = run.state(8);
  fs::copy(run.runs.path() / "other/checkpoints/step-00000008", copied, fs::copy_options::recursive);
  const Words unsaved = {"runtime.seed=9", "checkpoint.every_steps=50", "checkpoint.at_end=false"};
  REQUIRE(run.launch(9, unsaved, {"--resume", copied.string()}).exit_code == 0);
  for (int again = 0; again < 2; ++again) {  // nothing was saved: as after a crash
    const SubprocessResult r = run.launch(10 + again, unsaved);
    INFO(r.err);
    CHECK(r.exit_code == 0);
    CHECK_THAT(r.err, Contains("as it was told before") && Contains("continues after step 8"));
  }
  const Words saved = {"runtime.seed=9"};
  CHECK_THAT(run.launch(12, saved).err, Contains("continues after step 8"));
  CHECK_THAT(run.launch(13, saved).err, Contains("continues after step 12"));
}

TEST_CASE("a run is asked for the room of the checkpoints that it makes, not of all that it might keep",
          "[training][files]") {
  const OneRun run(4);
  CHECK(run.launch(5, {"checkpoint.keep=1000000000"}).exit_code == 0);
}

TEST_CASE("after a loss that is no number the commands that are offered work", "[training][files]") {
  const OneRun run(4);
  const Words wild = {"optimizer.lr=1e30"};
  const auto offered = [](const SubprocessResult& r, const std::string& begin) {
    INFO(r.err);
    CHECK(r.exit_code == 4);
    const size_t at = r.err.find(begin), path = r.err.find("--resume ", at) + 9,
                 skip = r.err.find("--skip-batches ", at);
    REQUIRE(at != std::string::npos);
    return Words{"--resume", r.err.substr(path, skip - path - 1), "--skip-batches",
                 r.err.substr(skip + 15, r.err.find('\n', skip) - skip - 15)};
  };
  const SubprocessResult failed = run.launch(8, wild);
  const Words past = offered(failed, "to pass over the samples"), back = offered(failed, "to go back further");
  CHECK_THAT(failed.err, !Contains("the attempt before"));
  CHECK(fs::equivalent(past[1], run.state(4)));
  CHECK(fs::equivalent(back[1], run.state(2)));
  CHECK(std::stoi(back[3]) == std::stoi(past[3]) + 2);
  // Typed as it is, with a loss that is no number again: what is offered then reaches behind those samples as well.
  const Words further = offered(run.launch(8, wild, past), "to pass over the samples");
  CHECK(further[1] == past[1]);
  CHECK(std::stoi(further[3]) > std::stoi(past[3]));
  REQUIRE(run.launch(4, {}, {"--resume", past[1]}).exit_code == 0);  // and forgets what was passed over
  REQUIRE(run.launch(8, wild).exit_code == 4);
  const SubprocessResult again = run.launch(8, wild);
  CHECK_THAT(again.err, Contains("the attempt before this one ended at step "));
  for (const Words& way : {past, back}) {
    const SubprocessResult r = run.launch(5, {}, way);
    INFO(r.err);
    CHECK(r.exit_code == 0);
    CHECK_THAT(r.err, Contains("skips " + way[3] + " batches after step"));
  }
}

TEST_CASE("a state of another run among its own is passed over, told, and taken when it is named",
          "[training][files]") {
  const OneRun run(4);
  run.runs.train("other", steps(8, {"runtime.seed=9"}));
  const fs::path copied = run.state(8);
  fs::copy(run.runs.path() / "other/checkpoints/step-00000008", copied, fs::copy_options::recursive);
  const SubprocessResult r = run.launch(5, {"name=renamed"});
  INFO(r.err);
  CHECK(r.exit_code == 0);
  CHECK_THAT(r.err, Contains(copied.string() + ": it is of another run") && Contains("continues after step 4"));
  CHECK(run.losses().size() == 5);
  // Under the new name too, its own are its own.
  CHECK_THAT(run.launch(6, {"name=again"}).err, Contains("continues after step 5"));
  // With nothing else the run is not started anew; the way on that is offered works.
  for (const auto& entry : fs::directory_iterator(run.checkpoints))
    if (entry.path() != copied) fs::remove_all(entry.path());
  refused(run.launch(9), 5, "it is of another run");
  CHECK_THAT(run.launch(9).err, Contains("--resume " + copied.string() + " goes on from it all the same"));
  const SubprocessResult taken = run.launch(9, {"runtime.seed=9"}, {"--resume", copied.string()});
  CHECK(taken.exit_code == 0);
  CHECK_THAT(taken.err, Contains("continues after step 8"));
  CHECK_THAT(run.launch(10, {"runtime.seed=9"}).err, Contains("continues after step 9"));
}

}  // namespace trainctl::testing
