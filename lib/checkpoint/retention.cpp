// lib/checkpoint/retention.cpp -- deletion in an order that no crash turns into a half checkpoint.
#include "checkpoint/retention.h"

#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/posix_io.h"
#include "checkpoint/save_job.h"
#include "checkpoint/scan.h"

namespace trainctl {
namespace fs = std::filesystem;
namespace {

std::vector<fs::path> surplus(const fs::path& root, int64_t keep, bool also_broken) {
  ensure(keep >= 1, "retention keeps at least one checkpoint");
  std::vector<fs::path> folders;
  int64_t training = 0, intermediate = 0;
  for (const CheckpointInfo& info : scan_checkpoints(root)) {  // newest first
    if (info.state == CheckpointState::usable) {
      int64_t& count = info.kind == "training" ? training : intermediate;
      if (++count > keep) folders.push_back(info.folder);
    } else if (also_broken && training > 0 && info.state != CheckpointState::unusable) {
      folders.push_back(info.folder);
    }
  }
  return folders;
}

}  // namespace

std::vector<fs::path> apply_retention(const fs::path& root, int64_t keep) {
  std::vector<fs::path> folders = surplus(root, keep, false);
  for (const fs::path& folder : folders) move_to_trash(folder);
  return folders;
}

std::vector<fs::path> prune_checkpoints(const fs::path& root, int64_t keep, bool dry_run) {
  std::vector<fs::path> folders = surplus(root, keep, true);
  if (!dry_run)
    for (const fs::path& folder : folders) move_to_trash(folder);
  return folders;
}

void move_to_trash(const fs::path& folder) {
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
      fs::remove(root / name / kCommittedName, ignored);
      remove_tree(root / name);
    }
}

void mark_unusable(const fs::path& folder, const std::string& reason, const std::string& detector,
                   const std::string& evidence) {
  write_file_atomically(folder / kUnusableName, to_text(Unusable{reason, detector, evidence, wall_clock_ns()}));
}

bool mark_usable(const fs::path& folder) {
  if (::unlink((folder / kUnusableName).c_str()) != 0) {
    if (errno == ENOENT) return false;
    fail(ErrorKind::environment, fmt::format("cannot remove {}: {}", (folder / kUnusableName).string(),
                                             std::generic_category().message(errno)));
  }
  sync_directory(folder);
  return true;
}

}  // namespace trainctl
