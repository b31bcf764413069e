// lib/checkpoint/retention.h -- taking checkpoints away, and marking them; the only code that deletes one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/scan.h"

namespace trainctl {

struct RetentionPolicy {
  RetentionPolicy(int64_t keep_newest, int64_t every_steps = 0, std::string of_run = {})
      : keep(keep_newest), keep_every_steps(every_steps), run_id(std::move(of_run)) {}
  int64_t keep;              // newest usable ones of each kind, by step number; >= 1
  int64_t keep_every_steps;  // training states whose step is a multiple of it stay for good; 0: none
  std::string run_id;        // states of other runs are left alone and count for nothing; "": all are of one
};

// A state that was put aside because its step was saved again has a usable successor: that step, or, where the state is
// training and verified, a verified one of that step or a later one. One of another run than `run_id` never has.
bool is_succeeded(const std::filesystem::path& aside, const std::string& run_id);

// Of a usable one: its manifest names the policy's run.
bool is_of_run(const std::filesystem::path& folder, const RetentionPolicy& policy);

// Removes the usable training and intermediate checkpoints that the policy does not keep. What stays, whatever the
// policy: pinned ones; the newest verified training state; other kinds; and everything that is damaged, unusable or
// uncommitted, which holds evidence, so people decide. One counts as kept only after a close look (inspect_folder), so
// that a damaged one never pushes a good one out. Returns the folders removed.
std::vector<std::filesystem::path> apply_retention(const std::filesystem::path& root, const RetentionPolicy& policy);

// As apply_retention, and also removes what was never committed and what is damaged, if older than the newest usable
// training checkpoint and not pinned. `dry_run`: only says what would go.
std::vector<std::filesystem::path> prune_checkpoints(const std::filesystem::path& root, const RetentionPolicy& policy,
                                                     bool dry_run);

// Renames `folder` to .trash-<name>-<random> in the same place, removes COMMITTED, then everything.
void move_to_trash(const std::filesystem::path& folder);
// The same unless it is pinned, now or between the rename and the removal of COMMITTED: then it gets its name back, and
// false.
bool move_unpinned_to_trash(const std::filesystem::path& folder);
void empty_trash(
    const std::filesystem::path& root);  // what an interrupted removal left; a pinned one gets its name back

// All marks: throws Error{checkpoint} for a folder that is a link, whose target is somebody else's.

// Writes the tombstone. An older one is replaced, its words kept in the evidence; but one that proves damage
// (Unusable::proves_damage) does not give way to one that does not: false, and nothing is written.
bool mark_unusable(const std::filesystem::path& folder, const std::string& reason, const std::string& detector,
                   const std::string& evidence);
// Takes the tombstone away, without a look at what it said: mark_usable (verify.h) looks. False when it had none.
bool remove_unusable(const std::filesystem::path& folder);

// PINNED: retention and prune leave it alone, also those that run meanwhile. Returns what the folder then looks like;
// throws Error{checkpoint} when it went before the pin was seen. unpin: false when it had no pin.
CheckpointInfo pin_checkpoint(const std::filesystem::path& folder, const std::string& reason);
bool unpin_checkpoint(const std::filesystem::path& folder);
bool is_pinned(const std::filesystem::path& folder);  // or may be: this process may not look

// VERIFIED for the manifest of this digest.
void mark_verified(const std::filesystem::path& folder, const std::string& manifest_sha256, const std::string& how);
// DRILLED, the same way.
void mark_drilled(const std::filesystem::path& folder, const std::string& manifest_sha256, const std::string& how);

}  // namespace trainctl
