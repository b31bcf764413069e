// lib/checkpoint/retention.h -- taking checkpoints away, and marking them; the only code that deletes one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace trainctl {

// Keeps the newest `keep` usable training checkpoints (by step number) and the newest `keep` usable intermediate ones;
// removes the older usable ones. Damaged, unusable and uncommitted ones are left alone: they hold evidence, and people
// decide. Returns the folders removed. keep >= 1.
std::vector<std::filesystem::path> apply_retention(const std::filesystem::path& root, int64_t keep);

// As apply_retention, and also removes what was never committed and what is damaged, if older than the newest usable
// training checkpoint. `dry_run`: only says what would go.
std::vector<std::filesystem::path> prune_checkpoints(const std::filesystem::path& root, int64_t keep, bool dry_run);

// Renames `folder` to .trash-<name>-<random> in the same place, removes COMMITTED, then everything.
void move_to_trash(const std::filesystem::path& folder);
void empty_trash(const std::filesystem::path& root);  // what an interrupted removal left

// Writes the tombstone; replaces an older one.
void mark_unusable(const std::filesystem::path& folder, const std::string& reason, const std::string& detector,
                   const std::string& evidence);
// Takes the tombstone away; the folder is then what its files say. False when it had none.
bool mark_usable(const std::filesystem::path& folder);

}  // namespace trainctl
