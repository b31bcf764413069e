// tests/fault/checkpoint/scenario.cpp -- preparing a folder, and judging it against contents known beforehand.
#include "fault/checkpoint/scenario.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include "base/error.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/posix_io.h"
#include "checkpoint/scan.h"
#include "checkpoint/verify.h"

namespace trainctl::testing {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kNextStep = 10;

// All tensors of a restored catalog against the known state.
std::string difference_of(const fs::path& from, const KnownState& state) {
  RankState rank(small_model(), 0, 1);
  Checkpointer c = build_checkpointer({}, options_for(from.parent_path()), rank.arena(), rank.catalog);
  const RestoreResult result = c.restore(rank.catalog, from.string());
  if (result.step != state.step) return fmt::format("step {} instead of {}", result.step, state.step);
  return rank.difference(state.salt);
}

std::vector<KnownState> legal_states(const Scenario& scenario) {
  std::vector<KnownState> all = scenario.before;
  all.push_back(scenario.saved);
  all.push_back(saved_next(scenario));
  return all;
}

// The known state that the checkpoint `info` holds, bit for bit.
KnownState identify(const Scenario& scenario, const CheckpointInfo& info, std::string& fault) {
  std::string closest = "no such step was ever saved";
  for (const KnownState& state : legal_states(scenario)) {
    if (state.step != info.step) continue;
    closest = difference_of(info.folder, state);
    if (closest.empty()) return state;
  }
  fault += fmt::format("{} is usable, and wrong: {}\n", info.folder.filename().string(), closest);
  return {-1, 0};
}

std::string next_save_fault(const Scenario& scenario, const fs::path& folder) {
  save_once(folder, scenario.world, kNextStep, 77, 1);
  if (const std::string wrong = difference_of(folder / folder_name_of(kNextStep), {kNextStep, 77}); !wrong.empty())
    return "the next save is wrong: " + wrong + "\n";
  std::string left;
  for (const std::string& name : names_in(folder / ".staging")) left += " .staging/" + name;
  for (const std::string& name : names_in(folder))
    if (name.starts_with(".trash-") || name.find(".tmp.") != std::string::npos) left += " " + name;
  return left.empty() ? "" : "the next save left debris:" + left + "\n";
}

}  // namespace

const std::vector<Scenario>& scenarios() {
  static const std::vector<Scenario> all = {
      {.name = "first", .saved = {1, 1}},
      {.name = "next", .before = {{1, 1}}, .saved = {2, 2}, .keep = 1},
      {.name = "replace", .before = {{1, 1}, {2, 20}, {3, 30}}, .saved = {2, 2}, .rolled_back_to = 1},
      {.name = "debris", .before = {{1, 1}}, .saved = {2, 2}, .keep = 1, .debris = true},
      {.name = "ranks", .world = 2, .before = {{1, 1}}, .saved = {2, 2}, .keep = 1},
  };
  return all;
}

KnownState saved_next(const Scenario& scenario) { return {scenario.saved.step + 1, scenario.saved.salt + 1}; }

std::vector<Scenario> chosen_scenarios() {
  const char* only = std::getenv("TRAINCTL_SWEEP_SCENARIO");
  return only == nullptr ? scenarios() : std::vector<Scenario>{scenario_named(only)};
}

const Scenario& scenario_named(const std::string& name) {
  for (const Scenario& s : scenarios())
    if (s.name == name) return s;
  throw std::runtime_error("no scenario is called " + name);
}

void prepare(const Scenario& scenario, const fs::path& folder) {
  for (const KnownState& state : scenario.before) save_once(folder, scenario.world, state.step, state.salt);
  if (!scenario.debris) return;
  const fs::path good = folder / folder_name_of(1);
  const auto copy_to = [&](const fs::path& name) {
    fs::create_directories((folder / name).parent_path());
    fs::copy(good, folder / name, fs::copy_options::recursive);
  };
  copy_to(fs::path(".staging") / "step-00000002.0123456789abcdef0123456789abcdef");
  copy_to(".trash-step-00000001-01234567");
  copy_to(".superseded-step-00000001-01234567");
  copy_to(folder_name_of(2));
  fs::remove(folder / folder_name_of(2) / kCommittedName);
}

Judgement judge(const Scenario& scenario, const fs::path& folder, bool with_next_save) {
  Judgement verdict;
  try {
    for (const CheckpointInfo& info : scan_checkpoints(folder)) {
      if (info.state == CheckpointState::damaged) verdict.fault += info.folder.string() + ": " + info.reason + "\n";
      if (info.state != CheckpointState::usable) continue;
      for (const std::string& fault : verify_checkpoint(info.folder, true).faults)
        verdict.fault += fmt::format("{} is usable, but {}\n", info.folder.filename().string(), fault);
      verdict.usable.push_back(identify(scenario, info, verdict.fault));
    }
    RankState rank(small_model(), 0, 1);
    Checkpointer c = build_checkpointer({}, options_for(folder), rank.arena(), rank.catalog);
    if (const RestoreResult result = c.restore(rank.catalog); result.found) {
      CheckpointInfo info;
      info.folder = result.folder;
      info.step = result.step;
      verdict.found = identify(scenario, info, verdict.fault);
    } else if (!scenario.before.empty()) {
      verdict.fault += "nothing is left to resume from\n";
    }
    if (with_next_save) verdict.fault += next_save_fault(scenario, folder);
  } catch (const std::exception& e) {
    verdict.fault += fmt::format("the judge was refused: {}\n", e.what());
  }
  return verdict;
}

}  // namespace trainctl::testing
