// lib/checkpoint/scan.h -- which checkpoints a folder holds, and for each whether it may be used and why not.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/format.h"

namespace trainctl {

enum class CheckpointState : uint8_t {
  usable,      // COMMITTED, manifest and every file size agree
  unusable,    // somebody or something said so: UNUSABLE beats every other marker
  incomplete,  // never committed
  damaged,     // committed, and no longer what was committed
};
std::string_view name(CheckpointState state);

struct CheckpointInfo {
  std::filesystem::path folder;
  CheckpointState state = CheckpointState::incomplete;
  std::string reason;   // why not usable
  std::string beneath;  // of one marked UNUSABLE: why it could not be used without the mark either; "": it could
  bool proven_damaged = false;  // UNUSABLE was written by something that read wrong blocks, or cannot be read
  bool unreadable = false;      // permissions, a failing disk, a link (then damaged) or a file: never pruned
  bool other_version = false;   // damaged to this program, and never pruned either
  int64_t step = -1;            // -1: not known
  std::string kind, attempt, manifest_sha256;
  int64_t bytes = 0;  // of data
  bool pinned = false;
  std::string pin_reason;
  bool verified = false;  // VERIFIED names the manifest that COMMITTED names
  std::string verified_how;
  int64_t verified_ns = 0;
  bool drilled = false;  // and so does DRILLED
  std::string drilled_how;
  std::vector<std::string> notes;  // markers that say nothing: torn, or of another manifest
};

// Checks everything but the digests of the data blocks, which are checked while loading (and by verify --full): final
// name, COMMITTED with its self digest, the manifest's SHA-256 and its rules, the digests of receipts and meta files,
// every file's size, no links. Never throws for what it finds. A usable one's manifest is handed out when asked for.
CheckpointInfo inspect_folder(const std::filesystem::path& folder, Manifest* manifest = nullptr);

// The same in a few system calls, whatever the size: COMMITTED with its self digest, the other markers, and the sizes
// of manifest.json and of the files of data/ in sum. When these do not agree it looks as closely as inspect_folder.
CheckpointInfo glance_at_folder(const std::filesystem::path& folder);

// Every "step-N" below `root` (and ".superseded-step-N-*", which a crash in the middle of replacing a step may leave),
// newest step first, each but links (damaged: they are refused) as `glance` (glance_at_folder) or inspect_folder sees
// it; a file of such a name is incomplete, and unreadable. An empty list when there is no such folder; throws
// file_error (environment) when it cannot be read.
enum class Look : uint8_t { closely, glance };
std::vector<CheckpointInfo> scan_checkpoints(const std::filesystem::path& root, Look look = Look::closely);
// Throws Error{checkpoint} unless `relative` is a regular file of `bytes` bytes in `folder`, by plain folders only.
void check_plain_file(const std::filesystem::path& folder, const std::string& relative, int64_t bytes);

// Of inspect_folder: this process may not read it, or the disk fails, so nothing is known of it.
bool may_not_be_read(const CheckpointInfo& info);
bool is_superseded(const CheckpointInfo& info);  // by its name: another state of the same step has taken its place

// For messages: "steps 30 (usable), 20 (damaged)", in the order given; "none at all".
std::string steps_text(const std::vector<CheckpointInfo>& checkpoints);
// For messages about a folder that was named and is not there: what the folder it would be in has, and how to name the
// newest usable one.
std::string what_is_there_instead(const std::filesystem::path& missing);

// A checkpoint folder, a folder of checkpoints, or a run directory (with checkpoints/ inside): the folder of
// checkpoints it stands for. Throws Error{checkpoint} saying what it is when it is none of these, also when the
// checkpoints/ of a run is a file or a link to nothing; file_error (environment) when it may not be looked into.
std::filesystem::path checkpoint_root_of(const std::filesystem::path& path);
bool is_checkpoint_folder(const std::filesystem::path& path);  // has a manifest, COMMITTED or UNUSABLE

}  // namespace trainctl
