// lib/checkpoint/retention.cpp -- deletion in an order that no crash turns into a half checkpoint.
#include "checkpoint/retention.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/file_error.h"
#include "base/hash.h"
#include "base/json_node.h"
#include "checkpoint/markers.h"
#include "checkpoint/posix_io.h"
#include "checkpoint/save_job.h"
#include "checkpoint/scan.h"

namespace trainctl {
namespace fs = std::filesystem;
namespace {

bool names_run(const Manifest& manifest, const RetentionPolicy& policy) {
  return policy.run_id.empty() || manifest.run_id == policy.run_id;
}

std::vector<fs::path> surplus(const fs::path& root, const RetentionPolicy& policy, bool also_broken) {
  ensure(policy.keep >= 1, "retention keeps at least one checkpoint");
  std::vector<fs::path> folders;
  int64_t training = 0, intermediate = 0;
  bool verified = false;                                              // the newest verified training state was seen
  for (CheckpointInfo info : scan_checkpoints(root, Look::glance)) {  // newest first
    if (is_superseded(info)) continue;
    const bool is_training = info.kind == "training", counts = is_training || info.kind == "intermediate";
    int64_t& count = is_training ? training : intermediate;
    const bool kept = counts && count < policy.keep;
    Manifest manifest;
    if (info.state == CheckpointState::usable && kept) info = inspect_folder(info.folder, &manifest);
    if (info.state == CheckpointState::usable) {
      // A long history is not read again at every save: only what counts, what would go, and what is verified.
      const bool forever =
          info.pinned || (is_training && policy.keep_every_steps > 0 && info.step % policy.keep_every_steps == 0);
      const bool proof = is_training && info.verified && !verified;
      if (!counts || (forever && !kept && !proof)) continue;
      if (kept ? !names_run(manifest, policy) : !is_of_run(info.folder, policy)) continue;
      ++count;
      verified = verified || proof;
      if (!kept && !forever && !proof) folders.push_back(info.folder);
    } else if (also_broken && training > 0 && info.state != CheckpointState::unusable && !info.pinned &&
               !info.unreadable &&
               !info.other_version) {  // what is in it, and whether it is pinned, somebody else may see
      folders.push_back(info.folder);
    }
  }
  return folders;
}

// The folder's place while it is taken away.
fs::path trash_for(const fs::path& folder) {
  std::string name = folder.filename().string();
  if (name.starts_with('.')) name.erase(0, 1);
  return folder.parent_path() / fmt::format("{}{}-{}", kTrashPrefix, name, random_hex(8));
}

// "step-00000012", of which this is the trash; "" for any other name.
std::string trashed_name(std::string_view trash) {
  if (!trash.starts_with(kTrashPrefix)) return "";
  trash.remove_prefix(kTrashPrefix.size());
  const std::string name(trash.substr(0, trash.rfind('-')));
  return step_of_folder(name) ? name : "";
}

bool is_being_removed(const fs::path& folder) {
  for (const std::string& name : names_in(folder.parent_path()))
    if (trashed_name(name) == folder.filename()) return true;
  return false;
}

void remove_trash(const fs::path& trash) {
  if (::unlink((trash / kCommittedName).c_str()) != 0 && errno != ENOENT)
    fail(ErrorKind::environment, fmt::format("cannot remove {}: {}", (trash / kCommittedName).string(),
                                             std::generic_category().message(errno)));
  std::string cause;
  if (!remove_tree(trash, &cause))
    fail(ErrorKind::environment, fmt::format("cannot remove all of {}: {}", trash.string(), cause));
}

// A process may have died between the rename and the look for a pin.
bool give_back_pinned(const fs::path& root, const std::string& trash) {
  const std::string name = trashed_name(trash);
  if (name.empty() || regular_file_bytes(root / trash / kCommittedName) < 0 || !is_pinned(root / trash)) return false;
  std::error_code unknown;
  if (fs::symlink_status(root / name, unknown).type() != fs::file_type::not_found) return false;  // it has a successor
  rename_to_new_name(root / trash, root / name);
  sync_directory(root);
  return true;
}

// What is behind a link belongs to somebody else. `folder` alone is looked at: a run directory may be a link.
void refuse_link(const fs::path& folder) {
  const fs::path name = folder.has_filename() ? folder : folder.parent_path();
  std::error_code unknown;
  if (!fs::is_symlink(fs::symlink_status(name, unknown))) return;
  fail(ErrorKind::checkpoint,
       fmt::format("{} is a link, and no mark is made through links: name the folder where it lies, {}", name.string(),
                   in_quotes(fs::weakly_canonical(name, unknown).string())));
}

bool remove_marker(const fs::path& marker) {
  if (::unlink(marker.c_str()) != 0) {
    if (errno == ENOENT) return false;
    const int code = errno;
    std::error_code unknown;
    if (fs::is_directory(fs::symlink_status(marker, unknown)))
      fail(ErrorKind::environment,
           fmt::format("cannot remove the mark {}: it is a folder, which trainctl did not make; "
                       "look into it and remove it by hand",
                       marker.string()));
    throw file_error(ErrorKind::environment, "remove the mark", marker, code);
  }
  sync_directory(marker.parent_path());
  return true;
}

}  // namespace

bool is_of_run(const fs::path& folder, const RetentionPolicy& policy) {
  if (policy.run_id.empty()) return true;
  Manifest manifest;
  inspect_folder(folder, &manifest);
  return names_run(manifest, policy);
}

bool is_succeeded(const fs::path& aside, const std::string& run_id) {
  const RetentionPolicy own(1, 0, run_id);
  const std::string name = aside.filename().string();  // .superseded-step-00000012-0123abcd
  const fs::path step =
      aside.parent_path() / name.substr(kSupersededPrefix.size(), name.rfind('-') - kSupersededPrefix.size());
  Manifest successor, manifest;
  const CheckpointInfo now = inspect_folder(step, &successor);
  const bool same_step = now.state == CheckpointState::usable && names_run(successor, own);
  const CheckpointInfo info = inspect_folder(aside, &manifest);
  if (!manifest.run_id.empty() && !names_run(manifest, own)) return false;
  if (info.state != CheckpointState::usable || info.kind != "training" || !info.verified) return same_step;
  if (same_step && now.verified) return true;
  const std::vector<CheckpointInfo> others = scan_checkpoints(aside.parent_path(), Look::glance);
  return std::any_of(others.begin(), others.end(), [&](const CheckpointInfo& other) {
    return other.state == CheckpointState::usable && other.kind == "training" && other.verified &&
           other.step > info.step && !is_superseded(other) && is_of_run(other.folder, own) &&
           inspect_folder(other.folder).state == CheckpointState::usable;
  });
}

std::vector<fs::path> apply_retention(const fs::path& root, const RetentionPolicy& policy) {
  std::vector<fs::path> folders = surplus(root, policy, false);
  std::erase_if(folders, [](const fs::path& folder) { return !move_unpinned_to_trash(folder); });
  return folders;
}

std::vector<fs::path> prune_checkpoints(const fs::path& root, const RetentionPolicy& policy, bool dry_run) {
  std::vector<fs::path> folders = surplus(root, policy, true);
  if (dry_run) return folders;
  std::erase_if(folders, [](const fs::path& folder) { return !move_unpinned_to_trash(folder); });
  empty_trash(root);
  return folders;
}

void move_to_trash(const fs::path& folder) {
  if (fs::is_symlink(fs::symlink_status(folder))) {  // what it points to is somebody else's
    remove_marker(folder);
    return;
  }
  const fs::path trash = trash_for(folder);
  rename_to_new_name(folder, trash);
  sync_directory(folder.parent_path());
  remove_trash(trash);
}

bool move_unpinned_to_trash(const fs::path& folder) {
  if (is_pinned(folder)) return false;
  if (fs::is_symlink(fs::symlink_status(folder))) {
    move_to_trash(folder);
    return true;
  }
  const fs::path trash = trash_for(folder);
  rename_to_new_name(folder, trash);
  // A pin that was written until the rename is in it. One that comes later finds no folder of its name, and says so.
  const bool pinned = is_pinned(trash);
  if (pinned) rename_to_new_name(trash, folder);
  sync_directory(folder.parent_path());
  if (!pinned) remove_trash(trash);
  return !pinned;
}

void empty_trash(const fs::path& root) {
  for (const std::string& name : names_in(root))
    if (name.starts_with(kTrashPrefix) && !give_back_pinned(root, name)) {
      std::error_code ignored;
      if (!fs::is_symlink(fs::symlink_status(root / name, ignored))) fs::remove(root / name / kCommittedName, ignored);
      remove_tree(root / name);
    }
}

bool mark_unusable(const fs::path& folder, const std::string& reason, const std::string& detector,
                   const std::string& evidence) {
  refuse_link(folder);
  const CheckpointInfo info = glance_at_folder(folder);
  Unusable mark{reason, detector, evidence, wall_clock_ns()};
  if (info.proven_damaged && !mark.proves_damage()) return false;
  if (info.state == CheckpointState::unusable)
    mark.evidence += fmt::format("{}before: {}", evidence.empty() ? "" : "; ", info.reason);
  write_file_atomically(folder / kUnusableName, to_text(mark));
  return true;
}

bool remove_unusable(const fs::path& folder) {
  refuse_link(folder);
  return remove_marker(folder / kUnusableName);
}

CheckpointInfo pin_checkpoint(const fs::path& folder, const std::string& reason) {
  refuse_link(folder);
  const CheckpointState before = inspect_folder(folder).state;
  try {
    write_file_atomically(folder / kPinnedName, to_text(Pinned{reason, wall_clock_ns()}));
  } catch (const Error&) {
    std::error_code unknown;
    if (fs::exists(folder, unknown) || unknown) throw;
  }
  // A run in progress may be taking the folder away: it gives it back if it sees the pin, and must be seen to. Gone
  // twice in a row: a rename between the two looks is no removal.
  int gone = 0;
  for (PatientWait wait(10, std::chrono::milliseconds(50));; wait.sleep()) {
    CheckpointInfo info = inspect_folder(folder);
    const bool leaving = !wait.expired() && is_being_removed(folder);
    if (info.pinned && is_pinned(folder) && (info.state == before || !leaving)) return info;
    gone = leaving ? 0 : gone + 1;
    if (gone >= 2)
      fail(ErrorKind::checkpoint, fmt::format("{} was removed while it was being pinned; nothing is pinned: a run in "
                                              "progress keeps its newest checkpoint.keep states, pin a newer one",
                                              folder.string()));
  }
}

bool unpin_checkpoint(const fs::path& folder) {
  refuse_link(folder);
  return remove_marker(folder / kPinnedName);
}

bool is_pinned(const fs::path& folder) {
  std::error_code unknown;
  const fs::file_status status = fs::symlink_status(folder / kPinnedName, unknown);
  return status.type() == fs::file_type::none || fs::exists(status);  // none: this process may not look
}

void mark_verified(const fs::path& folder, const std::string& manifest_sha256, const std::string& how) {
  refuse_link(folder);
  write_file_atomically(folder / kVerifiedName, to_text(Verified{manifest_sha256, how, wall_clock_ns()}));
}

void mark_drilled(const fs::path& folder, const std::string& manifest_sha256, const std::string& how) {
  refuse_link(folder);
  write_file_atomically(folder / kDrilledName, to_text(Drilled{manifest_sha256, how, wall_clock_ns()}));
}

}  // namespace trainctl
