// lib/accept/checkpoint_drill.h -- train, kill, resume on the same and on another layout, compare, write DRILLED.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl {

struct DrillRequest {
  std::filesystem::path trainctl;  // the program that launches
  std::filesystem::path recipe;
  std::vector<std::string> overrides;         // section.key=value
  std::vector<std::string> launch_arguments;  // handed to every launch: --topology FILE, --launcher threads, ...
  int64_t ranks = 0;                          // 0: the fewest that the recipe needs
  int64_t steps = 24;                         // at least 4
  bool scaled_down = false;
  std::filesystem::path folder;  // of the drill; must be new or empty. Kept, with every run directory in it
  std::function<void(std::string_view)> progress = [](std::string_view) {};
};

struct DrillCheck {
  std::string what;  // "a killed run, started again, has the losses of the uninterrupted one"
  bool passed = false;
  std::string found;   // numbers
  std::string advice;  // of a failed one: what to do
};

struct DrillReport {
  std::string layout, other_layout;
  std::vector<DrillCheck> checks;  // those of one launch together; after a failed one nothing more is launched
  std::filesystem::path drilled;   // the checkpoint with the marker; empty when a check failed
  double seconds = 0;
  const DrillCheck* failed() const;  // the first failed check; null: none
  bool passed() const { return !checks.empty() && failed() == nullptr; }
};

// Throws Error{config, plan, usage} for what cannot be drilled, Error{rank_failed} with the launch's last lines when
// the uninterrupted run fails: then there is nothing to compare with. Error{environment}: everything held, but DRILLED
// could not be written.
DrillReport drill_checkpoints(const DrillRequest& request);

}  // namespace trainctl
