// lib/checkpoint/attempt.h -- the beginning of a save on rank 0: the files of meta/, and attempt.json, from which
// another process can end a save whose rank 0 died.
#pragma once

#include <filesystem>
#include <optional>

#include "checkpoint/markers.h"
#include "checkpoint/save_job.h"

namespace trainctl {

// The manifest as far as rank 0 knows it before any receipt: identity, scalars, meta with digests. Its kind is
// "intermediate" and its completeness the declared classes, until the receipts are in.
Manifest draft_of(const SaveJob& job);

// Writes meta/* and attempt.json into the staging folder, synced. Throws Error.
void open_attempt(const SaveJob& job);

// After the commit the record has done its service; a failure to remove it does not matter.
void drop_attempt_record(const std::filesystem::path& folder) noexcept;

// The job that `folder` (below .staging, or a step folder that was never committed) was written for. Meta files are
// read, and compared with their digests. Throws Error{checkpoint}.
struct LeftAttempt {
  Owner owner;
  SaveJob job;
};
LeftAttempt read_attempt(const std::filesystem::path& folder);

}  // namespace trainctl
