// tests/unit/trainer/data_cursor_test.cpp -- where a resumed run takes its next sample: batches, skips, changed data,
// and checkpoints that contradict themselves.
#include "trainer/data_cursor.h"

#include <nlohmann/json.hpp>
#include <random>

#include "../data/data_test_support.h"
#include "base/error.h"
#include "support/catch.h"

namespace trainctl::testing {
namespace {

using Catch::Contains;

// A run as far as its data go; each attempt is a new process.
class Run {
 public:
  Run() {
    write_counting(folder_ / "a", std::vector<int64_t>(40, 11));
    write_counting(folder_ / "b", std::vector<int64_t>(25, 13));
    write_counting(folder_ / "c", std::vector<int64_t>(30, 7));
    data = config_of({path("a"), path("b")}, 8);
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  // Goes on from `found` (empty: from the start) for `steps`; what a save would then hold.
  ScalarState attempt(const std::optional<RestoreResult>& found, int64_t steps) {
    Job job;
    job.recipe.data = data;
    job.recipe.runtime.seed = seed;
    job.recipe.runtime.global_batch_size = batch;
    job.recipe.runtime.eval_every_steps = eval_every_steps;
    job.skip = skip;
    job.skipped_before = skipped_before;
    Sampler sampler(data, seed, 1000);
    DataCursor cursor(job, sampler);
    remarks.clear();
    ids.clear();
    if (!found)
      cursor.begin();
    else
      for (const DataRemark& remark : cursor.resume(*found))
        remarks += (remark.warning ? "warning: " : "note: ") + remark.text + "\n";
    for (int64_t s = 0; s < steps; ++s) {
      ids.resize(ids.size() + static_cast<size_t>(batch));
      sampler.fill(Split::train, cursor.next_sample(), batch, {.ids = ids.data() + std::ssize(ids) - batch});
      cursor.advance();
    }
    ScalarState state;
    state.step = (found ? found->scalars.step : 0) + steps;
    cursor.record(state);
    return state;
  }

  DataConfig data;
  int64_t seed = 3, batch = 4, eval_every_steps = 0;
  SkipBatches skip;
  std::vector<SkipBatches> skipped_before;
  std::string remarks;
  std::vector<SampleId> ids;

 private:
  ScratchFolder folder_;
};

std::vector<SampleId> of_source(const std::vector<SampleId>& ids, int64_t source) {
  std::vector<SampleId> out;
  std::copy_if(ids.begin(), ids.end(), std::back_inserter(out),
               [source](const SampleId& id) { return id.source == source; });
  return out;
}

RestoreResult saved(const ScalarState& scalars, const std::string& sha = "one") {
  RestoreResult found;
  found.found = true;
  found.step = scalars.step;
  found.folder = "checkpoints/step";
  found.manifest_sha256 = sha;
  found.scalars = scalars;
  return found;
}

}  // namespace

TEST_CASE("a run stopped anywhere and resumed with any batch takes each sample once, in order", "[trainer][data]") {
  Run straight;
  straight.attempt({}, 100);
  std::mt19937 random(2);
  for (int trial = 0; trial < 20; ++trial) {
    Run run;
    std::vector<SampleId> all;
    std::optional<RestoreResult> found;
    for (int part = 0; part < 6; ++part) {
      run.batch = 1 + static_cast<int64_t>(random() % 9);
      const int64_t before = found ? found->scalars.consumed_tokens : 0, steps = static_cast<int64_t>(random() % 6);
      const ScalarState state = run.attempt(found, steps);
      CHECK(state.consumed_tokens == before + steps * run.batch * 8);
      CHECK(state.consumed_samples * 8 == state.consumed_tokens);
      all.insert(all.end(), run.ids.begin(), run.ids.end());
      found = saved(state);
    }
    REQUIRE(all.size() <= straight.ids.size());
    CHECK(std::equal(all.begin(), all.end(), straight.ids.begin()));
  }
}

TEST_CASE("another global_batch_size is told, with the sample it begins with", "[trainer][data]") {
  Run run;
  const RestoreResult found = saved(run.attempt({}, 3));
  run.attempt(found, 1);
  CHECK(run.remarks.empty());
  run.batch = 6;
  run.attempt(found, 1);
  CHECK_THAT(run.remarks, Contains("note: runtime.global_batch_size is 6, it was 4: step 4 begins with sample 12"));
}

TEST_CASE("batches are skipped after the checkpoint they were asked for, and after no other", "[trainer][data]") {
  Run straight;
  straight.attempt({}, 40);
  Run run;
  const RestoreResult early = saved(run.attempt({}, 3), "early"), later = saved(run.attempt(early, 4), "later");
  run.skip = {.batches = 2, .samples = 8, .manifest_sha256 = "early", .step = 3};
  for (int again = 0; again < 2; ++again) {  // a crash before a save: the same once more
    const ScalarState state = run.attempt(early, 5);
    CHECK_THAT(run.remarks, Contains("note: skips 2 batches after step 3: samples 12 to 19"));
    CHECK(std::equal(run.ids.begin(), run.ids.end(), straight.ids.begin() + 20));
    CHECK(state.consumed_samples == 40);
    CHECK(state.consumed_tokens == 8 * 32);
    const RestoreResult own = saved(state, "own");
    run.attempt(own, 3);
    CHECK(run.remarks.empty());
    CHECK(std::equal(run.ids.begin(), run.ids.end(), straight.ids.begin() + 40));
    const DataState kept = data_state_from_text(run.attempt(own, 1).data_state, "state");
    REQUIRE(kept.skipped.size() == 1);
    CHECK(kept.skipped[0].first == 12);
    CHECK(kept.skipped[0].count == 8);
  }
  // Something else was asked for after a later state: this one stays for those who come back to the first.
  run.skipped_before = {run.skip};
  run.skip = {.batches = 1, .samples = 4, .manifest_sha256 = "other", .step = 9};
  run.attempt(early, 5);
  CHECK_THAT(run.remarks, Contains("note: skips 2 batches after step 3: samples 12 to 19") &&
                              Contains("warning: --skip-batches 1 was for the checkpoint of step 9"));
  CHECK(std::equal(run.ids.begin(), run.ids.end(), straight.ids.begin() + 20));
  run.skip = run.skipped_before[0];
  run.skipped_before.clear();
  run.attempt(later, 2);
  CHECK_THAT(run.remarks, Contains("warning: --skip-batches 2") && Contains("step 3") && Contains("does not apply"));
  CHECK(std::equal(run.ids.begin(), run.ids.end(), straight.ids.begin() + 28));
}

TEST_CASE("skipped batches are those of the old order when the data change at the same time", "[trainer][data]") {
  Run run;
  const RestoreResult found = saved(run.attempt({}, 5));
  Run straight;
  straight.attempt({}, 40);
  Run other;
  other.skip = {.batches = 2, .samples = 8, .manifest_sha256 = "one", .step = 5};
  other.data.train[1].weight = 3;
  other.data.on_change = "continue";
  const DataOrder order = data_state_from_text(other.attempt(found, 10).data_state, "state").order;
  CHECK(order.first_sample == 28);
  for (const int64_t source : {0, 1}) {  // 14 of each were passed
    CHECK(order.sources[static_cast<size_t>(source)].given == 14);
    const std::vector<SampleId> all = of_source(straight.ids, source), later = of_source(other.ids, source);
    REQUIRE(later.size() >= 10);
    CHECK(std::equal(later.begin(), later.end(), all.begin() + 14));
  }
}

TEST_CASE("changed data are refused, continued or begun anew as data.on_change says", "[trainer][data]") {
  Run run;
  const RestoreResult found = saved(run.attempt({}, 5));
  run.data.train[1].weight = 3;
  run.data.train.push_back({run.path("c"), 1});
  CHECK_THROWS_WITH(run.attempt(found, 1), Contains("checkpoints/step") && Contains("data.on_change is \"refuse\"") &&
                                               Contains("data.train[1].weight") && Contains("1 -> 3") &&
                                               Contains("data.train[2]") && Contains("is new") &&
                                               Contains("\"continue\"") && Contains("\"restart\""));
  run.data.on_change = "continue";
  const ScalarState state = run.attempt(found, 5);
  CHECK_THAT(run.remarks, Contains("note: the data changed") && Contains("goes on behind 10 samples") &&
                              Contains("begins at its first sample") && Contains("from sample 20 on"));
  const std::vector<SampleId> first = run.ids;
  // With the data unchanged since, the key does not matter.
  for (const char* key : {"refuse", "continue", "restart"}) {
    run.data.on_change = key;
    run.attempt(saved(state), 1);
    CHECK(run.remarks.empty());
  }
  run.data.on_change = "restart";
  run.attempt(found, 5);
  CHECK_THAT(run.remarks, Contains("from sample 20 on the order begins anew"));
  Run fresh;
  fresh.data = run.data;
  fresh.attempt({}, 5);
  CHECK(run.ids == fresh.ids);
  CHECK(run.ids != first);
}

TEST_CASE("a weight that changes nothing is no change, whatever data.on_change says", "[trainer][data]") {
  Run run;
  run.data = config_of({run.path("a")}, 8);
  const RestoreResult found = saved(run.attempt({}, 5));
  run.attempt(found, 6);
  const std::vector<SampleId> expected = run.ids;
  run.data.train[0].weight = 2;
  for (const char* key : {"refuse", "continue", "restart"}) {
    run.data.on_change = key;
    const ScalarState state = run.attempt(found, 6);
    CHECK(run.remarks.empty());
    CHECK(run.ids == expected);
    run.data.train[0].weight += 0.5;  // and from what it saves
    run.attempt(saved(state), 1);
    CHECK(run.remarks.empty());
  }
}

TEST_CASE("whether a source has enough documents is judged by its own number, not by its place in the list",
          "[trainer][data]") {
  // One of four documents is for validation; where that is the long one, no training sequence is left.
  Run run;
  write_counting(run.path("small"), {30, 2, 2, 2});
  write_counting(run.path("one"), {300});
  run.data = config_of({run.path("small"), run.path("one")}, 8);
  run.data.validation_fraction = 0.25;
  const IndexedTokens small(run.path("small"));
  const auto trains = [&](int64_t number) {
    return DocumentStream(small,
                          {.validation_fraction = 0.25, .seed = run.seed, .source = number, .sequence_tokens = 8})
               .sequences_per_epoch() > 0;
  };
  const auto seed_where = [&](bool as_first, bool as_second) {
    for (run.seed = 1; trains(0) != as_first || trains(1) != as_second; ++run.seed) REQUIRE(run.seed < 1000);
  };
  const auto swap = [&] { std::swap(run.data.train[0], run.data.train[1]); };

  seed_where(true, false);
  RestoreResult found = saved(run.attempt({}, 5));
  swap();
  CHECK_THROWS_WITH(run.attempt(found, 1), Contains("was data.train[") && Contains("data.on_change"));
  run.data.on_change = "continue";
  const RestoreResult moved = saved(run.attempt(found, 5));
  CHECK(of_source(run.ids, 0).size() == 10);
  run.attempt(moved, 5);
  CHECK(of_source(run.ids, 0).size() == 10);
  // A new run of that list, and the order begun anew, cannot be; nor can a run to which it comes with that number.
  const std::string why = "data.train[1] " + run.path("small") + ": its 3 training documents";
  CHECK_THROWS_WITH(run.attempt({}, 1), Contains(why));
  run.data.on_change = "restart";
  CHECK_THROWS_WITH(run.attempt(found, 1), Contains(why));
  run.data.on_change = "continue";
  run.data = config_of({run.path("one")}, 8);
  run.data.validation_fraction = 0.25;
  found = saved(run.attempt({}, 5));
  run.data.on_change = "continue";
  run.data.train.insert(run.data.train.begin(), {run.path("small"), 1});
  CHECK_THROWS_WITH(run.attempt(found, 1), Contains("data.train[0] " + run.path("small")));

  // The same with the documents for validation: they are enough where the long one is among them.
  write_counting(run.path("small"), {30, 2, 2, 30});
  const auto evaluates = [&](int64_t number) {
    return DocumentStream(IndexedTokens(run.path("small")), {.split = Split::validation,
                                                             .validation_fraction = 0.25,
                                                             .seed = run.seed,
                                                             .source = number,
                                                             .sequence_tokens = 8})
               .sequences_per_epoch() > 0;
  };
  for (run.seed = 1; !evaluates(0) || evaluates(1); ++run.seed) REQUIRE(run.seed < 1000);
  run.eval_every_steps = 2;
  run.data.train = {{run.path("small"), 1}, {run.path("one"), 1}};
  found = saved(run.attempt({}, 5));
  swap();
  CHECK_THROWS_WITH(run.attempt({}, 1), Contains("holds back 1 documents"));
  run.attempt(found, 5);
}

TEST_CASE("what --skip-batches passes over is told per source, in samples and epochs, and loudly from an epoch on",
          "[trainer][data]") {
  Run run;  // 54 samples of "a" in an epoch, 40 of "b"
  const RestoreResult found = saved(run.attempt({}, 3));
  const auto skips = [&](int64_t batches) {
    run.skip = {.batches = batches, .samples = batches * run.batch, .manifest_sha256 = "one", .step = 3};
    run.attempt(found, 1);
    return run.remarks;
  };
  const std::string a = "of \"" + run.path("a") + "\"", b = "of \"" + run.path("b") + "\"";
  CHECK_THAT(skips(2),
             Contains("note: the skipped samples are 4 " + a + " (0.07 epochs), 4 " + b + " (0.10 epochs)\n") &&
                 !Contains("warning"));
  CHECK_THAT(skips(21), Contains("42 " + a + " (0.78 epochs)") && Contains("42 " + b + " (1.05 epochs)") &&
                            Contains("warning: ") && Contains("--skip-batches 21"));
  CHECK_THAT(skips(1000), Contains("2000 " + a + " (37.04 epochs)") && Contains("2000 " + b + " (50.00 epochs)"));
  CHECK_THROWS_WITH(skips(int64_t{1} << 58),
                    Contains("--skip-batches") && Contains("more samples than a run can have"));
  // With other data: those of the old order, in epochs where that is known.
  run.data.on_change = "continue";
  run.data.train[1].path = run.path("c");
  CHECK_THAT(skips(2), Contains("are 4 " + a + " (0.07 epochs), 4 " + b + "\n"));
}

TEST_CASE("what cannot be continued exactly is refused by name, and may begin anew", "[trainer][data]") {
  Run run;
  const RestoreResult found = saved(run.attempt({}, 5));
  const auto refused = [&](const std::string& change) {
    for (const char* key : {"refuse", "continue"}) {
      run.data.on_change = key;
      CHECK_THROWS_WITH(run.attempt(found, 1),
                        Contains(change) && Contains("\"continue\" is no choice") && Contains("\"restart\""));
    }
    run.data.on_change = "restart";
    const ScalarState state = run.attempt(found, 1);
    CHECK(state.consumed_samples == 24);
    CHECK(state.consumed_tokens == 20 * 8 + 4 * run.data.sequence_tokens);
    CHECK(state.seed == run.seed);
    run.data.on_change = "refuse";
    run.attempt(saved(state), 1);
    CHECK(run.remarks.empty());
  };
  run.data.sequence_tokens = 10;
  refused("data.sequence_tokens: 8 -> 10");
  run.data.sequence_tokens = 8;
  run.data.validation_fraction = 0.25;
  refused("data.validation_fraction: 0 -> 0.25");
  run.data.validation_fraction = 0;
  run.seed = 4;
  refused("runtime.seed: 3 -> 4");
}

TEST_CASE("a checkpoint of a version without the state of the data goes on with the same data", "[trainer][data]") {
  Run run;
  ScalarState old = run.attempt({}, 5);
  run.attempt(saved(old), 3);
  const std::vector<SampleId> expected = run.ids;
  old.data_state.clear();
  run.attempt(saved(old), 3);
  CHECK(run.remarks.empty());
  CHECK(run.ids == expected);
  run.data.train[0].weight = 2;
  for (const char* key : {"refuse", "continue"}) {
    run.data.on_change = key;
    CHECK_THROWS_WITH(run.attempt(saved(old), 1), Contains("did not write down") && Contains("\"restart\""));
  }
  run.data.on_change = "restart";
  run.attempt(saved(old), 1);
}

TEST_CASE("a state of the data that contradicts itself is refused", "[trainer][data]") {
  Run run;
  const ScalarState good = run.attempt({}, 5);
  const auto refused = [&](const std::function<void(ScalarState&, nlohmann::json&)>& change, const std::string& why) {
    ScalarState bad = good;
    nlohmann::json state = nlohmann::json::parse(bad.data_state);
    change(bad, state);
    bad.data_state = state.dump();
    INFO(bad.data_state);
    try {
      run.attempt(saved(bad), 1);
      FAIL("it was accepted");
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::checkpoint);
      CHECK_THAT(e.what(), Contains(why));
    }
  };
  refused([](ScalarState&, nlohmann::json& s) { s["order"]["sources"][0]["given"] = 5; }, "contradicts");
  refused([](ScalarState&, nlohmann::json& s) { s["order"]["first_sample"] = 21; }, "contradicts");
  refused([](ScalarState& s, nlohmann::json&) { s.seed = 9; }, "contradicts");
  refused([](ScalarState& s, nlohmann::json&) { s.data_fingerprint = "00"; }, "contradicts");
  refused([](ScalarState& s, nlohmann::json&) { s.consumed_samples = -1; }, "does not say");
  refused([](ScalarState&, nlohmann::json& s) { s["order"]["sources"] = nlohmann::json::array(); }, "no source");
  refused([](ScalarState&, nlohmann::json& s) { s["order"]["sources"][1]["number"] = 0; }, "the number 0");
  refused([](ScalarState&, nlohmann::json& s) { s["order"]["sources"][1]["given"] = -1; }, "given");
  refused([](ScalarState&, nlohmann::json& s) { s["order"].erase("gone"); }, "gone");
  refused([](ScalarState&, nlohmann::json& s) { s["speed"] = 1; }, "speed");
  refused([](ScalarState&, nlohmann::json& s) { s["samples_per_step"] = 0; }, "samples_per_step");
}

}  // namespace trainctl::testing
