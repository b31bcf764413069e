// tests/fault/checkpoint/process_ranks.h -- ranks as processes that agree through shared memory, without MPI and
// without a single system call on files once they have met.
#pragma once

#include <filesystem>

#include "checkpoint/checkpointer.h"

namespace trainctl::testing {

// The agreement of rank `rank` of `world` (at most 8) over the file `meeting`, which the first one makes. A rank that
// waits longer than a minute throws.
Agreement process_agreement(const std::filesystem::path& meeting, int64_t rank, int64_t world);

}  // namespace trainctl::testing
