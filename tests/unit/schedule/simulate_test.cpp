// tests/unit/schedule/simulate_test.cpp -- what the simulator refuses, times and prints.
#include "schedule/simulate.h"

#include <random>

#include "base/error.h"
#include "support/catch.h"

using namespace trainctl;

namespace {
constexpr Phase F = Phase::forward, B = Phase::backward;

Schedule hand_made(std::vector<StageProgram> programs, int num_micro_batches) {
  const int stages = static_cast<int>(programs.size());
  return {"hand_made", stages, num_micro_batches, std::move(programs)};
}
}  // namespace

TEST_CASE("a schedule that lacks or repeats an action is refused with stage and micro-batch", "[schedule]") {
  CHECK_THROWS_WITH(simulate(hand_made({{{F, 0}, {B, 0}}, {{F, 0}}}, 1)),
                    Catch::Contains("stage 1: the backward of micro-batch 0 appears 0 times"));
  CHECK_THROWS_WITH(simulate(hand_made({{{F, 0}, {F, 0}, {B, 0}}}, 1)),
                    Catch::Contains("stage 0: the forward of micro-batch 0 appears 2 times"));
  CHECK_THROWS_WITH(simulate(hand_made({{{F, 0}, {B, 0}, {F, 2}}}, 2)),
                    Catch::Contains("micro-batch 2") && Catch::Contains("out of range"));
  CHECK_THROWS_WITH(simulate(hand_made({{{F, -1}}}, 1)), Catch::Contains("out of range"));
  CHECK_THROWS_WITH(simulate(hand_made({{{F, 0, 1}, {B, 0}}}, 1)), Catch::Contains("chunk 1"));
  CHECK_THROWS_WITH(simulate({"short", 2, 1, {{{F, 0}, {B, 0}}}}), Catch::Contains("1 programs for 2 stages"));
  CHECK_THROWS_WITH(simulate({"empty", 0, 1, {}}), Catch::Contains("0 programs for 0 stages"));
  CHECK_THROWS_WITH(simulate({"none", 1, 0, {{}}}), Catch::Contains("0 micro-batches"));
}

TEST_CASE("a deadlock names every stuck stage, its action and what it waits for", "[schedule]") {
  // Stage 0 wants the backward of 0 before it has fed forward 1; stage 1 wants forward 1 first.
  const Schedule s = hand_made({{{F, 0}, {B, 0}, {F, 1}, {B, 1}}, {{F, 0}, {F, 1}, {B, 0}, {B, 1}}}, 2);
  CHECK_THROWS_WITH(
      simulate(s),
      Catch::Contains("stage 0 is at action 1 (backward of micro-batch 0) and waits for the backward of micro-batch 0 "
                      "on stage 1") &&
          Catch::Contains("stage 1 is at action 1 (forward of micro-batch 1) and waits for the forward of micro-batch "
                          "1 on stage 0"));
  CHECK_THROWS_WITH(simulate(hand_made({{{B, 0}, {F, 0}}}, 1)),
                    Catch::Contains("waits for the forward of micro-batch 0 on stage 0"));
}

TEST_CASE("a shuffled program either finishes with its dependencies kept or is reported", "[schedule][property]") {
  std::mt19937 random(3);
  int finished = 0, stuck = 0;
  for (int round = 0; round < 400; ++round) {
    Schedule s = make_schedule("1f1b", 3, 4);
    for (StageProgram& program : s.programs)
      for (int swaps = std::uniform_int_distribution<>(0, 3)(random); swaps > 0; --swaps) {
        const size_t i = std::uniform_int_distribution<size_t>(0, program.size() - 2)(random);
        std::swap(program[i], program[i + 1]);
      }
    try {
      const Simulation result = simulate(s, {.forward = 2, .backward = 3});
      ++finished;
      const auto end_of = [&](size_t stage, Phase phase, int m) {
        for (const TimedAction& t : result.stages[stage])
          if (t.action == Action{phase, m}) return t.end;
        return 1e9;
      };
      for (size_t stage = 0; stage < 3; ++stage) {
        double free = 0;
        for (const TimedAction& t : result.stages[stage]) {
          CHECK(t.start >= free);
          CHECK(t.end - t.start == (t.action.phase == F ? 2 : 3));
          free = t.end;
          const int m = t.action.micro_batch;
          if (t.action.phase == F && stage > 0) CHECK(t.start >= end_of(stage - 1, F, m));
          if (t.action.phase == B) CHECK(t.start >= end_of(stage, F, m));
          if (t.action.phase == B && stage < 2) CHECK(t.start >= end_of(stage + 1, B, m));
        }
      }
    } catch (const Error& e) {
      ++stuck;
      CHECK_THAT(e.what(), Catch::Contains("cannot finish") && Catch::Contains("waits for"));
    }
  }
  CHECK(finished > 20);
  CHECK(stuck > 20);
}

TEST_CASE("costs that are no times are refused", "[schedule]") {
  const Schedule s = make_schedule("gpipe", 2, 2);
  CHECK_THROWS_AS(simulate(s, {.forward = -1, .backward = 1}), Error);
  CHECK_THROWS_AS(simulate(s, {.forward = 0, .backward = 0}), Error);
  CHECK_THROWS_AS(simulate(s, {.forward = std::nan(""), .backward = 1}), Error);
  CHECK_THROWS_AS(simulate(s, {.forward = 1, .backward = INFINITY}), Error);
}

TEST_CASE("the simulation prints as a time line", "[schedule]") {
  CHECK(to_text(simulate(make_schedule("1f1b", 2, 2))) ==
        "stage 0  | F0 F1 .  .  B0 -  .  B1 -\n"
        "stage 1  | .  F0 B0 -  F1 B1 -  .  .\n"
        "bubble 33.3 %, micro-batches in flight at most per stage: 2 1\n");
}

TEST_CASE("a long simulation prints without a time axis", "[schedule]") {
  const std::string text = to_text(simulate(make_schedule("gpipe", 1, 2), {.forward = 0.5, .backward = 1}));
  CHECK(text ==
        "stage 0  | F0 F1 B0 B1\n"
        "bubble 0.0 %, micro-batches in flight at most per stage: 2\n");
}

TEST_CASE("a thousand stages with a thousand micro-batches simulate in linear time", "[schedule]") {
  const Simulation result = simulate(make_schedule("1f1b", 512, 1024), {.forward = 1, .backward = 1});
  CHECK(result.makespan == 2 * (1024 + 511));
  CHECK(result.peak_in_flight.front() == 512);
}
