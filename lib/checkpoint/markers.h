// lib/checkpoint/markers.h -- the smaller records beside a checkpoint: PINNED, VERIFIED, verdicts of a read-back, and
// attempt.json of a save under way. Canonical JSON with a self digest, as in format.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trainctl {

// Retention and prune leave a checkpoint with this marker alone, whatever its text.
struct Pinned {
  std::string reason;
  int64_t time_ns = 0;
};

// Every block of the manifest with this digest was read from the disk and had its digest.
struct Verified {
  std::string manifest_sha256;
  std::string how;  // "readback, O_DIRECT", ...
  int64_t time_ns = 0;
};

// A run was killed and resumed from the checkpoint with this manifest, in its own and in another layout, with the
// numbers of the uninterrupted run.
struct Drilled {
  std::string manifest_sha256;
  std::string how;
  int64_t time_ns = 0;
};

// What one rank found when it read its files back after the commit.
struct Verdict {
  std::string attempt;
  int64_t rank = 0;
  bool ok = false;
  bool damaged = false;  // proven: a block was read, twice, and is not what was written; else it could not be read
  std::string reason;    // why not ok: names file and block
  std::string how;
};

// A process that may still be writing: the host's boot and the process's start tell it from a later one.
struct Owner {
  std::string host, boot_id;
  int64_t pid = 0, start_ticks = 0;
};

// What rank 0 knew when it began a save: enough for another process to end it from the receipts.
struct Attempt {
  Owner owner;
  std::string draft;  // a manifest without tensors, files and receipts; its completeness is what the run declared
};

std::string to_text(const Pinned& pinned);
std::string to_text(const Verified& verified);
std::string to_text(const Drilled& drilled);
std::string to_text(const Verdict& verdict);
std::string to_text(const Attempt& attempt);

// Each throws Error{checkpoint} naming `source`, the member and the rule.
Pinned pinned_from_text(std::string_view text, const std::string& source);
Verified verified_from_text(std::string_view text, const std::string& source);
Drilled drilled_from_text(std::string_view text, const std::string& source);
Verdict verdict_from_text(std::string_view text, const std::string& source);
Attempt attempt_from_text(std::string_view text, const std::string& source);

Owner this_process();
// alive: it runs on this host now. gone: this host was rebooted or the process has ended. unknown: another host's.
enum class OwnerState : uint8_t { alive, gone, unknown };
OwnerState state_of(const Owner& owner);

inline constexpr std::string_view kPinnedName = "PINNED";
inline constexpr std::string_view kVerifiedName = "VERIFIED";
inline constexpr std::string_view kDrilledName = "DRILLED";
inline constexpr std::string_view kAttemptName = "attempt.json";

}  // namespace trainctl
