// lib/launch/first_cause.h -- out of everything that was left behind, the one thing that went wrong first.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "launch/child_process.h"
#include "launch/launcher_output.h"
#include "launch/process_tree.h"
#include "recipe/job.h"

namespace trainctl {

// A checkpoint of the run that it could go on from.
struct UsableState {
  int64_t step = 0;
  std::string folder{};
  int64_t consumed_samples = -1;  // what a run that goes on from it takes next; -1: not known
};

struct Evidence {
  const Job* job = nullptr;                          // never null
  std::vector<RankFailure> failures{};               // errors/rank-N.json
  LauncherVerdict verdict{};                         // what mpirun or srun says
  ExitStatus child{};                                // of mpirun, srun or the single worker
  std::vector<ProcessInfo> processes{};              // ranks of this host when the first failure was seen
  int64_t last_step = 0;                             // of metrics.jsonl
  std::vector<std::string> launcher_lines{};         // its own last lines
  std::vector<std::string> launcher_arguments{};     // --launcher-arg
  bool ranks_started = true;                         // any rank printed or logged something
  std::vector<UsableState> usable{};                 // newest first: a relaunch continues from the first
  int64_t numeric_before = 0;                        // step at which the attempt before met no number; 0: it did not
  std::function<std::string(int64_t)> last_words{};  // the last line a rank printed or logged; may be empty
};

struct FirstCause {
  ErrorKind kind = ErrorKind::rank_failed;
  std::string message{};               // one line: rank, host, step, operation, cause
  std::vector<std::string> details{};  // further lines, the last one says what to do
};

// Errors of a rank's own making come before failed messages (a peer's death shows as one), those before "another rank
// failed", those before hangs; within a class the earliest. A rank that died without a word comes before messages that
// failed because of it. Hang reports are merged: the chain of waiting ranks is followed to those that never arrived.
FirstCause first_cause(const Evidence& evidence);

// For "what to do: ...": the same command again, from the newest checkpoint or from the start.
std::string how_to_continue(const Evidence& evidence);

// The merged report of ranks that waited; `hangs` is not empty.
FirstCause explain_hang(const Evidence& evidence, const std::vector<RankFailure>& hangs);

}  // namespace trainctl
