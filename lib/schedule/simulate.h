// lib/schedule/simulate.h -- runs a schedule on paper: is it complete, can it finish, what does it hold, how long is
// it.
#pragma once

#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace trainctl {

struct ActionCosts {
  double forward = 1;   // time of one forward of one micro-batch on any stage; any unit, >= 0
  double backward = 2;  // of one backward; > 0 together with forward
};

struct TimedAction {
  Action action;
  double start = 0, end = 0;
};

struct Simulation {
  std::vector<std::vector<TimedAction>> stages;  // in program order
  std::vector<int> peak_in_flight;               // per stage: forwards done whose backward is not, at most
  double makespan = 0;                           // when the last action of any stage ends
  double bubble_fraction = 0;                    // idle share of (num_stages * makespan)
};

// Executes all programs at once. Sends are asynchronous and take no time: an action starts when the one before it in
// its program has ended and its inputs exist:
//   forward m on stage s   needs forward m on stage s-1;
//   backward m on stage s  needs forward m on stage s, and backward m on stage s+1.
// Throws Error{plan}: the wrong number of programs; an action that is out of range, missing or doubled on a stage
// (complete = one forward and one backward per micro-batch); a deadlock, naming for every stuck stage the action and
// what it waits for. Every chunk must be 0. Costs must be finite and not negative.
// Cost: O(actions).
Simulation simulate(const Schedule& schedule, const ActionCosts& costs = {});

// One row per stage, one column per unit of time when both costs are whole numbers and the makespan is at most
// `max_columns`; '.' is idle, the first column of an action is its name. Otherwise the programs without a time axis.
// Ends with the bubble and the peak per stage.
std::string to_text(const Simulation& simulation, int max_columns = 200);

}  // namespace trainctl
