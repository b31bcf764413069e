// lib/schedule/schedule.h -- pipeline schedules as data: one list of actions per stage.
//
// The executor walks a stage's program in order; the simulator (simulate.h) checks it. Both built schedules hold every
// micro-batch's gradient until the last backward, so they compute the same sums in the same order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl {

enum class Phase : uint8_t { forward, backward };

struct Action {
  Phase phase = Phase::forward;
  int micro_batch = 0;  // from 0
  int chunk = 0;        // virtual stage on this rank; 0 in gpipe and 1f1b
  bool operator==(const Action&) const = default;
};
using StageProgram = std::vector<Action>;

struct Schedule {
  std::string name;
  int num_stages = 0;
  int num_micro_batches = 0;
  std::vector<StageProgram> programs;  // [num_stages]
};

std::vector<std::string> schedule_names();  // "1f1b", "gpipe"

// Throws Error{plan}: an unknown name (with the nearest), num_stages < 1 or num_micro_batches < 1.
Schedule make_schedule(std::string_view name, int num_stages, int num_micro_batches);

// All forwards, then all backwards in the same order: num_micro_batches in flight on every stage.
// Source: Huang et al. 2019, "GPipe".
StageProgram gpipe(int num_micro_batches);

// Warm up, alternate one forward and one backward, drain: min(num_stages - stage, num_micro_batches) in flight.
// Requires 0 <= stage < num_stages. Source: Narayanan et al. 2021, section 2.2.
StageProgram one_f_one_b(int stage, int num_stages, int num_micro_batches);

std::string to_text(const Action& action);      // "F3", "B0"; with a chunk: "F3.1"
std::string to_text(const Schedule& schedule);  // one row per stage: "stage 0: F0 F1 B0 B1"

}  // namespace trainctl
