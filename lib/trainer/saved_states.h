// lib/trainer/saved_states.h -- what a run says that it saved, against what is there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/checkpointer.h"
#include "recipe/job.h"

namespace trainctl {

// What a run tells of a save: as kSavedEvent when it was committed, else as a warning.
std::string text_of(const SaveOutcome& outcome);

// The newest checkpoint that a run says it has committed on its present branch.
struct SavedState {
  int64_t step = 0;       // 0: nothing tells of one
  std::string told_by{};  // the file that says so
};

// Of three witnesses the first that tells of one: events.jsonl; launch.json (`seen`), where that is lost or damaged;
// checkpoints/LATEST. A step whose save was never committed is told by none of them.
SavedState newest_saved(const RunPaths& paths, const RunRecord& seen);

// For a run whose checkpoints folder holds no committed checkpoint: why it must not start anew, with what to do, when
// newest_saved tells of one (a disk that is not mounted, a folder that was moved away); else "".
std::string lost_states(const RunPaths& paths, const RunRecord& seen);

// For a run that goes on by itself from its own state `found`: that a newer one was saved and is not there, with what
// to do; else "". One that is there and cannot be used, or that found.rejected names, has been told.
std::string newer_than_found(const RunPaths& paths, const RunRecord& seen, const RestoreResult& found);

// For a run that starts anew, of which something tells that it has made steps: what a user should know, one sentence
// each.
std::vector<std::string> anew_remarks(const RunPaths& paths, const RunRecord& seen);

}  // namespace trainctl
