// lib/checkpoint/admission.cpp -- S0 on rank 0.
#include "checkpoint/admission.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/units.h"
#include "checkpoint/adopt.h"
#include "checkpoint/posix_io.h"
#include "checkpoint/retention.h"
#include "checkpoint/save_job.h"
#include "checkpoint/scan.h"

namespace trainctl {
namespace fs = std::filesystem;
namespace {

void lay_ballast(const fs::path& root, int64_t bytes) {
  const fs::path ballast = root / kBallastName;
  if (bytes <= 0 || regular_file_bytes(ballast) >= 0 || free_bytes(root) < 2 * bytes) return;
  try {
    FileHandle file = FileHandle::create_exclusive(ballast);
    file.reserve(bytes);
    file.close();
  } catch (const Error&) {  // no room for it: saves still work
    std::error_code ignored;
    fs::remove(ballast, ignored);
  }
}

// Not synced here, where training waits: the manifest's and the receipts' own syncs cover these names before the folder
// is published.
void make_attempt_folders(const fs::path& staging) {
  for (const fs::path& folder : {staging, staging / "data", staging / "receipts"})
    if (::mkdir(folder.c_str(), 0777) != 0)  // an attempt's name is new: nothing may be there
      fail(ErrorKind::environment,
           fmt::format("cannot create {}: {}", folder.string(), std::generic_category().message(errno)));
}

// A crash while LATEST was written leaves its temporary file. A crash while a step was being replaced leaves the old
// one aside; it goes once the step has a usable successor. What cannot be removed is no reason not to save.
void drop_leftovers(const fs::path& root, const std::string& run_id) {
  for (const std::string& entry : names_in(root)) {
    if (entry.starts_with(fmt::format("{}.tmp.", kLatestName))) {
      std::error_code ignored;
      fs::remove(root / entry, ignored);
    }
    if (!entry.starts_with(kSupersededPrefix)) continue;
    try {
      if (is_succeeded(root / entry, run_id)) move_unpinned_to_trash(root / entry);
    } catch (const Error&) {
    }
  }
}

}  // namespace

bool give_up_ballast(const fs::path& root) noexcept { return ::unlink((root / kBallastName).c_str()) == 0; }

Admission admit_save(const fs::path& root, int64_t step, int64_t bytes, const SpacePolicy& space,
                     const std::string& run_id) {
  Admission admission;
  try {
    make_directories(root / kStagingName);
    sweep_attempts(root);
    empty_trash(root);
    drop_leftovers(root, run_id);
    lay_ballast(root, space.ballast_bytes);
    const int64_t needed = bytes + bytes / 10 + space.margin_bytes;
    int64_t free = free_bytes(root);
    if (free < needed) {  // an attempt that somebody might adopt must not keep the next save from happening
      drop_attempts_up_to(root, INT64_MAX);
      free = free_bytes(root);
    }
    if (free < needed && space.may_use_ballast && give_up_ballast(root)) free = free_bytes(root);
    if (free < needed) {
      admission.reason =
          fmt::format("{} free at {}, a save needs {} (1.1 x {} and a margin of {})", human_bytes(free), root.string(),
                      human_bytes(needed), human_bytes(bytes), human_bytes(space.margin_bytes));
      return admission;
    }
    SaveJob job;
    job.root = root;
    job.step = step;
    job.attempt = random_hex(32);
    make_attempt_folders(job.staging_folder());
    admission.attempt = job.attempt;
    admission.go = true;
  } catch (const std::exception& e) {
    admission.reason = fmt::format("rank 0: {}", e.what());
  }
  return admission;
}

}  // namespace trainctl
