// tests/unit/schedule/schedule_test.cpp -- the generated programs: order, completeness, peak, bubble, printed form.
#include "schedule/schedule.h"

#include <algorithm>
#include <random>

#include "base/error.h"
#include "schedule/simulate.h"
#include "support/catch.h"

using namespace trainctl;

namespace {

// The time a pipeline takes, by the textbook recurrence over an explicit clock: at every tick each idle stage starts
// its next action when its inputs ended before; all costs 1. Independent of simulate()'s worklist.
int ticks_of(const Schedule& schedule, std::vector<int>* idle) {
  const size_t stages = schedule.programs.size();
  std::vector<size_t> next(stages, 0);
  std::vector<std::vector<Action>> done(stages);
  idle->assign(stages, 0);
  const auto has = [&](size_t s, Phase phase, int m) {
    return std::find(done[s].begin(), done[s].end(), Action{phase, m}) != done[s].end();
  };
  int ticks = 0;
  for (;; ++ticks) {
    std::vector<size_t> ran;
    bool all = true;
    for (size_t s = 0; s < stages; ++s) {
      if (next[s] == schedule.programs[s].size()) {
        ++(*idle)[s];
        continue;
      }
      all = false;
      const Action a = schedule.programs[s][next[s]];
      const bool ready = a.phase == Phase::forward
                             ? s == 0 || has(s - 1, Phase::forward, a.micro_batch)
                             : has(s, Phase::forward, a.micro_batch) &&
                                   (s + 1 == stages || has(s + 1, Phase::backward, a.micro_batch));
      if (ready)
        ran.push_back(s);
      else
        ++(*idle)[s];
    }
    if (all) break;
    REQUIRE_FALSE(ran.empty());
    for (const size_t s : ran) done[s].push_back(schedule.programs[s][next[s]++]);
  }
  for (int& i : *idle) --i;  // the tick at which everything was over
  return ticks;
}

}  // namespace

TEST_CASE("1F1B on four stages is the published schedule", "[schedule]") {
  const Schedule s = make_schedule("1f1b", 4, 5);
  CHECK(to_text(s) ==
        "1f1b: 4 stages, 5 micro-batches\n"
        "stage 0: F0 F1 F2 F3 B0 F4 B1 B2 B3 B4\n"
        "stage 1: F0 F1 F2 B0 F3 B1 F4 B2 B3 B4\n"
        "stage 2: F0 F1 B0 F2 B1 F3 B2 F4 B3 B4\n"
        "stage 3: F0 B0 F1 B1 F2 B2 F3 B3 F4 B4\n");
}

TEST_CASE("GPipe runs all forwards before all backwards", "[schedule]") {
  CHECK(to_text(make_schedule("gpipe", 2, 3)) ==
        "gpipe: 2 stages, 3 micro-batches\n"
        "stage 0: F0 F1 F2 B0 B1 B2\n"
        "stage 1: F0 F1 F2 B0 B1 B2\n");
}

TEST_CASE("every schedule meets its laws for random stages and micro-batches", "[schedule][property]") {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const int p = std::uniform_int_distribution<>(1, 12)(random);
    const int m = std::uniform_int_distribution<>(1, 20)(random);
    for (const std::string& name : schedule_names()) {
      INFO(name << ", " << p << " stages, " << m << " micro-batches");
      const Schedule schedule = make_schedule(name, p, m);
      const Simulation result = simulate(schedule, {.forward = 1, .backward = 1});

      std::vector<int> idle;
      const int ticks = ticks_of(schedule, &idle);
      CHECK(result.makespan == ticks);
      CHECK(ticks == 2 * (m + p - 1));
      CHECK(result.bubble_fraction == Approx(double(p - 1) / double(m + p - 1)).margin(1e-12));
      for (int s = 0; s < p; ++s) {
        CHECK(idle[size_t(s)] == 2 * (p - 1));
        CHECK(result.peak_in_flight[size_t(s)] == (name == "1f1b" ? std::min(p - s, m) : m));
        const StageProgram& program = schedule.programs[size_t(s)];
        REQUIRE(program.size() == size_t(2 * m));
        for (const Phase phase : {Phase::forward, Phase::backward}) {  // micro-batches pass in order: sums are in order
          int expected = 0;
          for (const Action& a : program)
            if (a.phase == phase) CHECK(a.micro_batch == expected++);
          CHECK(expected == m);
        }
      }
    }
  }
}

TEST_CASE("the bubble formula holds for any cost of forward and backward", "[schedule][property]") {
  std::mt19937 random(8);
  std::uniform_real_distribution<> cost(0.1, 5);
  for (int round = 0; round < 100; ++round) {
    const int p = std::uniform_int_distribution<>(1, 9)(random);
    const int m = std::uniform_int_distribution<>(1, 25)(random);
    const ActionCosts costs{.forward = cost(random), .backward = cost(random)};
    for (const std::string& name : schedule_names()) {
      INFO(name << ", " << p << " stages, " << m << " micro-batches");
      CHECK(simulate(make_schedule(name, p, m), costs).bubble_fraction ==
            Approx(double(p - 1) / double(m + p - 1)).margin(1e-9));
    }
  }
}

TEST_CASE("an unknown schedule is refused with the nearest name", "[schedule]") {
  CHECK_THROWS_WITH(make_schedule("1f1bb", 2, 2), Catch::Contains("1f1bb") && Catch::Contains("did you mean 1f1b"));
  CHECK_THROWS_WITH(make_schedule("g-pipe", 2, 2), Catch::Contains("did you mean gpipe"));
  CHECK_THROWS_WITH(make_schedule("", 2, 2), Catch::Contains("1f1b, gpipe"));
  CHECK_THROWS_WITH(make_schedule("gpipe", 0, 2), Catch::Contains("pipeline_parallel is 0"));
  CHECK_THROWS_WITH(make_schedule("gpipe", 2, 0), Catch::Contains("micro-batches is 0"));
  try {
    make_schedule("zero_bubble", 2, 2);
    FAIL("an unknown schedule was accepted");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::plan);
  }
}
