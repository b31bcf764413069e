// lib/trainer/saved_states.h -- what a run says that it saved, against what is there.
#pragma once

#include <string>

#include "recipe/job.h"

namespace trainctl {

// For a run whose checkpoints folder holds no committed checkpoint: why it must not start anew, with what to do, when
// events.jsonl tells of one since the run last started at step 0 (a disk that is not mounted, a folder that was moved
// away); else "".
std::string lost_states(const RunPaths& paths);

}  // namespace trainctl
