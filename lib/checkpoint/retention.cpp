// lib/checkpoint/retention.cpp -- deletion in an order that no crash turns into a half checkpoint.
#include "checkpoint/retention.h"

#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/markers.h"
#include "checkpoint/posix_io.h"
#include "checkpoint/save_job.h"
#include "checkpoint/scan.h"

namespace trainctl {
namespace fs = std::filesystem;
namespace {

std::vector<fs::path> surplus(const fs::path& root, const RetentionPolicy& policy, bool also_broken) {
  ensure(policy.keep >= 1, "retention keeps at least one checkpoint");
  std::vector<fs::path> folders;
  int64_t training = 0, intermediate = 0;
  bool verified = false;                                              // the newest verified training state was seen
  for (CheckpointInfo info : scan_checkpoints(root, Look::glance)) {  // newest first
    if (is_superseded(info)) continue;
    const bool counts = info.kind == "training" || info.kind == "intermediate";
    int64_t& count = info.kind == "training" ? training : intermediate;
    if (info.state == CheckpointState::usable && counts && count < policy.keep) info = inspect_folder(info.folder);
    if (info.state == CheckpointState::usable) {
      if (!counts) continue;
      bool keep = ++count <= policy.keep || info.pinned;
      if (info.kind == "training") {
        keep = keep || (policy.keep_every_steps > 0 && info.step % policy.keep_every_steps == 0);
        keep = keep || (info.verified && !verified);
        verified = verified || info.verified;
      }
      if (!keep) folders.push_back(info.folder);
    } else if (also_broken && training > 0 && info.state != CheckpointState::unusable && !info.pinned &&
               !info.unreadable) {  // what is in it, and whether it is pinned, somebody else may see
      folders.push_back(info.folder);
    }
  }
  return folders;
}

bool remove_marker(const fs::path& marker) {
  if (::unlink(marker.c_str()) != 0) {
    if (errno == ENOENT) return false;
    fail(ErrorKind::environment,
         fmt::format("cannot remove {}: {}", marker.string(), std::generic_category().message(errno)));
  }
  sync_directory(marker.parent_path());
  return true;
}

}  // namespace

std::vector<fs::path> apply_retention(const fs::path& root, const RetentionPolicy& policy) {
  std::vector<fs::path> folders = surplus(root, policy, false);
  for (const fs::path& folder : folders) move_to_trash(folder);
  return folders;
}

std::vector<fs::path> prune_checkpoints(const fs::path& root, const RetentionPolicy& policy, bool dry_run) {
  std::vector<fs::path> folders = surplus(root, policy, true);
  if (dry_run) return folders;
  for (const fs::path& folder : folders) move_to_trash(folder);
  empty_trash(root);
  return folders;
}

void move_to_trash(const fs::path& folder) {
  if (fs::is_symlink(fs::symlink_status(folder))) {  // what it points to is somebody else's
    remove_marker(folder);
    return;
  }
  const fs::path root = folder.parent_path();
  std::string name = folder.filename().string();
  if (name.starts_with('.')) name.erase(0, 1);
  const fs::path trash = root / fmt::format("{}{}-{}", kTrashPrefix, name, random_hex(8));
  rename_to_new_name(folder, trash);
  sync_directory(root);
  if (::unlink((trash / kCommittedName).c_str()) != 0 && errno != ENOENT)
    fail(ErrorKind::environment, fmt::format("cannot remove {}: {}", (trash / kCommittedName).string(),
                                             std::generic_category().message(errno)));
  std::string cause;
  if (!remove_tree(trash, &cause))
    fail(ErrorKind::environment, fmt::format("cannot remove all of {}: {}", trash.string(), cause));
}

void empty_trash(const fs::path& root) {
  for (const std::string& name : names_in(root))
    if (name.starts_with(kTrashPrefix)) {
      std::error_code ignored;
      if (!fs::is_symlink(fs::symlink_status(root / name, ignored))) fs::remove(root / name / kCommittedName, ignored);
      remove_tree(root / name);
    }
}

bool mark_unusable(const fs::path& folder, const std::string& reason, const std::string& detector,
                   const std::string& evidence) {
  const CheckpointInfo info = glance_at_folder(folder);
  Unusable mark{reason, detector, evidence, wall_clock_ns()};
  if (info.proven_damaged && !mark.proves_damage()) return false;
  if (info.state == CheckpointState::unusable)
    mark.evidence += fmt::format("{}before: {}", evidence.empty() ? "" : "; ", info.reason);
  write_file_atomically(folder / kUnusableName, to_text(mark));
  return true;
}

bool remove_unusable(const fs::path& folder) { return remove_marker(folder / kUnusableName); }

void pin_checkpoint(const fs::path& folder, const std::string& reason) {
  write_file_atomically(folder / kPinnedName, to_text(Pinned{reason, wall_clock_ns()}));
}

bool unpin_checkpoint(const fs::path& folder) { return remove_marker(folder / kPinnedName); }

bool is_pinned(const fs::path& folder) {
  std::error_code unknown;
  const fs::file_status status = fs::symlink_status(folder / kPinnedName, unknown);
  return status.type() == fs::file_type::none || fs::exists(status);  // none: this process may not look
}

void mark_verified(const fs::path& folder, const std::string& manifest_sha256, const std::string& how) {
  write_file_atomically(folder / kVerifiedName, to_text(Verified{manifest_sha256, how, wall_clock_ns()}));
}

void mark_drilled(const fs::path& folder, const std::string& manifest_sha256, const std::string& how) {
  write_file_atomically(folder / kDrilledName, to_text(Drilled{manifest_sha256, how, wall_clock_ns()}));
}

}  // namespace trainctl
