// lib/launch/supervise.h -- starts the ranks and stays with them to the end: progress, signals, failures, no leftovers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/command.h"
#include "launch/first_cause.h"
#include "recipe/job.h"

namespace trainctl {

struct SuperviseOptions {
  bool live = false;         // progress on one overwritten line
  int live_columns = 0;      // width of that line; 0: any
  double settle_s = 5.0;     // after the first error report, how long the job may take to end by itself
  double terminate_s = 2.0;  // between SIGTERM and SIGKILL
  std::vector<std::string> launcher_arguments{};       // the --launcher-arg among the command's, for messages
  std::function<std::vector<UsableState>()> usable{};  // checkpoints to go on from, newest first
  int64_t numeric_before = 0;                          // see Evidence
  std::function<void(std::string_view)> result{};      // progress and the closing line (standard output)
  std::function<void(std::string_view)> diagnostic{};  // live line, notes, the cause of a failure (standard error)
};

struct JobOutcome {
  int exit_code = 0;       // 0, 2, 3, 4, 5 or 75
  int64_t steps_made = 0;  // optimizer steps of this attempt
};

// Runs `command` until it ends. The first SIGINT, SIGTERM or SIGHUP asks the ranks for a stop after a save
// (stop.request), a second one ends them. A failing rank ends the job within settle_s + terminate_s. On return no
// descendant of this process is alive. Output of ranks and launcher goes to logs/launcher.log.
// A run that made no step ends with 0 only when metrics.jsonl already had its last step.
JobOutcome supervise(const Job& job, const Command& command, const SuperviseOptions& options);

}  // namespace trainctl
