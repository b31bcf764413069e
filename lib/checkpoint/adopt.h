// lib/checkpoint/adopt.h -- ending a save whose rank 0 died after every rank had written its part.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/verify.h"

namespace trainctl {

// An attempt is the folder of a save that was never committed: .staging/step-N.<attempt>, the same one copied
// elsewhere, or step-N without COMMITTED. It can be adopted when attempt.json and meta/ are as written, every rank's
// receipt is there and good, the files have their sizes, the boxes of every tensor are disjoint and complete, no
// UNUSABLE says that the save was given up, the final name is free, and the process that wrote it is gone.
// `run_is_over`: the caller holds the run's lock; without it an attempt of another host counts as live until nothing in
// it changed for ten minutes.

// Why it cannot be adopted; "" when it can, as far as can be told without reading the data. Never throws.
std::string adoption_fault(const std::filesystem::path& folder, bool run_is_over);

// Re-hashes every block from the disk, then S8 to S11: manifest, final name, COMMITTED, LATEST; and VERIFIED, for it
// was all read. Nothing older is removed. Throws Error{checkpoint} with the reason; the folder is then as it was.
CheckpointInfo adopt_attempt(const std::filesystem::path& folder, bool run_is_over, const Progress& progress = {});

struct AttemptInfo {
  std::filesystem::path folder;
  int64_t step = -1;
  bool adoptable = false;
  std::string reason;  // why not
};
// What .staging below `root` holds, newest step first; with `run_is_over` as above.
std::vector<AttemptInfo> scan_attempts(const std::filesystem::path& root, bool run_is_over);

// Removes everything below .staging but the newest attempt that could be adopted and is newer than the newest usable
// training checkpoint. For the one writer of the folder (rank 0, at admission), which knows that its owners are gone.
void sweep_attempts(const std::filesystem::path& root);
// After a training state of `step` was committed: older attempts have nothing to give any more.
void drop_attempts_up_to(const std::filesystem::path& root, int64_t step);

}  // namespace trainctl
