// tests/fault/checkpoint/scenario.h -- the situations in which a save is interrupted, and what may be found afterwards.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "unit/checkpoint/fixture.h"

namespace trainctl::testing {

// A state on disk: the elements of `step` follow from `salt` alone (element_bits).
struct KnownState {
  int64_t step = 0;
  uint32_t salt = 0;
  bool operator==(const KnownState&) const = default;
};

struct Scenario {
  std::string name;
  int64_t world = 1;
  std::vector<KnownState> before{};  // committed before the save under test
  KnownState saved{};                // by the save under test
  int64_t keep = 3;
  int64_t rolled_back_to = -1;  // the run was told to go on from this step; -1: from the newest
  bool debris = false;          // what earlier crashes left lies around
};

// first: an empty run. next: keep 1, so that retention removes the older one. replace: a run rolled back to step 1
// saves step 2 again, with a step 3 beyond it. debris: a dead attempt, an interrupted removal, an uncommitted folder of
// the same step. ranks: two processes.
const std::vector<Scenario>& scenarios();
std::vector<Scenario> chosen_scenarios();         // all, or the one that TRAINCTL_SWEEP_SCENARIO names
KnownState saved_next(const Scenario& scenario);  // by the save after it, when there is one
const Scenario& scenario_named(const std::string& name);

inline constexpr const char* kAfterFirstSave = ".after";  // added to a folder's name: its copy after the first save

void prepare(const Scenario& scenario, const std::filesystem::path& folder);

// What must hold in `folder`, whatever happened to the save under test: a usable checkpoint holds exactly one of the
// known states; resuming finds one of them if there was one before; and the next save works, is found, and leaves no
// debris. Returns what does not hold, "" when all does. `found`: what resuming finds before that next save.
struct Judgement {
  std::string fault;
  KnownState found{-1, 0};
  std::vector<KnownState> usable{};  // in the folder
};
Judgement judge(const Scenario& scenario, const std::filesystem::path& folder, bool with_next_save = true);

}  // namespace trainctl::testing
