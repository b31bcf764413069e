// lib/checkpoint/verify.h -- examining checkpoints as files: proving one whole, and comparing two.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/retention.h"
#include "checkpoint/scan.h"

namespace trainctl {

struct VerifyReport {
  CheckpointInfo info;
  std::vector<std::string> faults;  // each names its file; a mark of UNUSABLE is one, the first
  std::vector<std::string> wrong;   // of the faults, those of blocks without their digest
  std::vector<std::string> notes;   // files that the manifest does not know, markers that say nothing: no fault, no use
  bool direct = true;               // full: every file was read with O_DIRECT
  int64_t blocks = 0, bytes = 0;    // whose digests were compared
  bool whole() const { return faults.empty(); }
};

using Progress = std::function<void(int64_t done_bytes, int64_t total_bytes)>;

// Markers, manifest, receipts, every file's size, every shard's header against the manifest's tensors; `full`: the
// digest of every block too, read past the page cache. Goes on after a fault and collects them all. Never throws for
// what it finds. An UNUSABLE mark does not stop it: the files are judged all the same.
VerifyReport verify_checkpoint(const std::filesystem::path& folder, bool full, const Progress& progress = {});

// verify_checkpoint, full; and writes down what it found: VERIFIED when it is whole, UNUSABLE with file and block when
// a block does not have its digest, also over the mark of a person. A folder that cannot be written is a note.
VerifyReport prove_checkpoint(const std::filesystem::path& folder, const Progress& progress = {});

// Takes UNUSABLE away when the checkpoint is whole without it. A mark that proves damage
// (CheckpointInfo::proven_damaged) goes only after verify_checkpoint, full, has found nothing, which VERIFIED then
// says; others after all but the blocks was looked at. Throws Error{checkpoint} with every fault otherwise; the mark
// then stays.
struct UsableAgain {
  bool changed = false;  // false: there was no mark
  std::string looked;    // at what: "every block (3, 11 MiB) was read and compared"
};
UsableAgain mark_usable(const std::filesystem::path& folder, const Progress& progress = {});

// Before prune_checkpoints removes usable training states: one of those that `policy` keeps must be VERIFIED, or is
// read and proven now (prove_checkpoint), the newest first; those found damaged are marked, and count no more. Returns
// them. Throws Error{checkpoint} when one is neither whole nor proven damaged: then nothing should be removed.
std::vector<std::filesystem::path> prove_what_stays(const std::filesystem::path& root, const RetentionPolicy& policy,
                                                    const Progress& progress = {});

struct TensorDifference {
  std::string name, role;
  std::string what;               // "only in A", "shape [2, 3] against [3, 3]", "values differ", ...
  int64_t elements = 0;           // that differ in bits
  std::optional<double> max_abs;  // largest difference of values; empty: not both finite numbers
};

struct CheckpointDifference {
  std::vector<TensorDifference> tensors;
  std::vector<std::string> scalars;  // "step: 4 against 8"
  int64_t compared = 0;              // tensors that both have, with the same shape and dtype
  int64_t differing = 0;             // of those compared; the rest of `tensors` could not be compared
  bool same() const { return tensors.empty() && scalars.empty(); }
};

// Compares logical tensors and scalars; layouts do not matter. Memory: twice the largest tensor. Throws
// Error{checkpoint} when one of them cannot be used.
CheckpointDifference diff_checkpoints(const std::filesystem::path& a, const std::filesystem::path& b,
                                      const Progress& progress = {});

// The manifest of a folder in any state, as long as its text can be read; for looking, not for loading. Throws
// Error{checkpoint}.
Manifest read_manifest(const std::filesystem::path& folder);

// Why a checkpoint of a run is passed over when none is named; "": it is taken.
using WhyNot = std::function<std::string(const CheckpointInfo&)>;
std::string unless_usable(const CheckpointInfo& info);

// A checkpoint folder itself, or the one at `step` (without it the newest that is not passed over) of a run directory
// or a folder of checkpoints. Throws Error{checkpoint} naming what is there and why it is not taken.
struct ChosenCheckpoint {
  std::filesystem::path folder;
  std::vector<std::string> passed_over;  // newer ones, newest first: "<folder> (damaged): <why>"
};
ChosenCheckpoint choose_checkpoint(const std::filesystem::path& path, std::optional<int64_t> step,
                                   const WhyNot& why_not = unless_usable);

}  // namespace trainctl
