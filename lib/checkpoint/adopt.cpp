// lib/checkpoint/adopt.cpp -- from the receipts of a dead attempt to a committed checkpoint.
#include "checkpoint/adopt.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/file_error.h"
#include "base/json_node.h"
#include "checkpoint/attempt.h"
#include "checkpoint/media_reader.h"
#include "checkpoint/posix_io.h"
#include "checkpoint/retention.h"

namespace trainctl {
namespace fs = std::filesystem;
namespace {

constexpr auto kQuiet = std::chrono::minutes(10);

void refuse(const std::string& what) { fail(ErrorKind::checkpoint, what); }

// "step-00000012.<32 hex digits>" -> 12; -1 for other names.
int64_t step_of_attempt(const std::string& name) { return step_of_folder(name.substr(0, name.find('.'))).value_or(-1); }

fs::path normal(const fs::path& folder) {
  const fs::path path = fs::absolute(folder).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

bool changed_lately(const fs::path& folder) {
  std::error_code code;
  for (fs::recursive_directory_iterator it(folder, code), end; !code && it != end; it.increment(code)) {
    std::error_code unknown;
    const auto time = fs::last_write_time(it->path(), unknown);
    if (!unknown && fs::file_time_type::clock::now() - time < kQuiet) return true;
  }
  return false;
}

void check_owner(const fs::path& folder, const Owner& owner, bool run_is_over) {
  const OwnerState state = state_of(owner);
  if (state == OwnerState::alive)
    fail(ErrorKind::environment,
         fmt::format("the save is live: process {} of {} is still writing it", owner.pid, owner.host));
  if (state == OwnerState::unknown && !run_is_over && changed_lately(folder))
    fail(ErrorKind::environment,
         fmt::format("the save belongs to process {} of {}, and files in it are younger than ten minutes: it may be "
                     "live; try again later, or on {}",
                     owner.pid, owner.host, owner.host));
}

struct Attempted {
  SaveJob job;
  Manifest manifest;
};

// Everything but the data's digests.
Attempted examine(const fs::path& folder, bool run_is_over) {
  std::error_code code;
  if (const std::string why = why_no_folder(folder); !why.empty())
    refuse(why == "does not exist" ? "there is no such folder" : "it " + why);
  if (regular_file_bytes(folder / kCommittedName) >= 0) refuse("it is committed; there is nothing to adopt");
  if (fs::exists(fs::symlink_status(folder / kUnusableName, code))) {
    std::string why = "the marker cannot be read";
    try {
      why = unusable_from_text(read_small_file(folder / kUnusableName, kMaxRecordBytes), "UNUSABLE").reason;
    } catch (const Error&) {
    }
    refuse(fmt::format("the save was given up: {}", why));
  }
  if (regular_file_bytes(folder / kAttemptName) < 0)
    refuse(fmt::format("{} is missing: rank 0 died before it had described the save", kAttemptName));
  LeftAttempt left = read_attempt(folder);
  SaveJob& job = left.job;
  const std::string name = folder.filename().string();
  const bool is_final = step_of_folder(name).has_value();
  const fs::path parent = folder.parent_path();
  job.root = parent.filename() == kStagingName ? parent.parent_path() : parent;
  if (const int64_t named = step_of_attempt(name); named >= 0 && named != job.step)
    refuse(fmt::format("the folder's name says step {}, {} says step {}", named, kAttemptName, job.step));
  check_owner(folder, left.owner, run_is_over);
  if (!is_final && fs::exists(fs::symlink_status(job.final_folder(), code)))
    refuse(fmt::format("the name {} is taken", job.final_folder().string()));
  int64_t there = 0;
  for (const std::string& entry : readable_names_in(folder / "receipts"))  // throws when what is in it cannot be told
    if (regular_file_bytes(folder / "receipts" / entry) >= 0) ++there;
  int64_t absent = 0;
  std::string first;
  for (int64_t r = 0; r < job.world && absent < 8; ++r)
    if (regular_file_bytes(folder / receipt_path(r)) < 0) first += fmt::format("{}{}", absent++ > 0 ? ", " : "", r);
  if (absent > 0)
    refuse(fmt::format("{} of {} receipts are missing, first of ranks {}", std::max(absent, job.world - there),
                       job.world, first));
  job.deadline_s = 0;
  Attempted a{job, manifest_of_receipts(job, folder)};
  for (const FileRecord& f : a.manifest.files) check_plain_file(folder, f.path, f.bytes);
  return a;
}

// True when every block was read with O_DIRECT.
bool rehash(const fs::path& folder, const Manifest& manifest, const Progress& progress) {
  int64_t total = 0, done = 0;
  bool direct = true;
  for (const FileRecord& f : manifest.files) total += f.bytes;
  for (const FileRecord& f : manifest.files) {
    const MediaCheck check = check_media(folder, f, [&](int64_t bytes) {
      done += bytes;
      if (progress) progress(done, total);
    });
    direct = direct && check.direct;
    if (!check.wrong.empty()) refuse(describe(f, check.wrong.front()));
  }
  return direct;
}

[[noreturn]] void refuse_adoption(const fs::path& folder, const std::exception& why) {
  const auto* error = dynamic_cast<const Error*>(&why);
  const bool environment = error != nullptr && error->kind() == ErrorKind::environment;
  fail(environment ? ErrorKind::environment : ErrorKind::checkpoint,
       fmt::format("{} cannot be adopted: {}", folder.string(), why.what()));
}

}  // namespace

std::string adoption_fault(const fs::path& folder, bool run_is_over) {
  try {
    examine(normal(folder), run_is_over);
    return "";
  } catch (const std::exception& e) {
    return e.what();
  }
}

CheckpointInfo adopt_attempt(const fs::path& given, bool run_is_over, const Progress& progress) {
  const fs::path folder = normal(given);
  std::optional<Attempted> attempt;
  bool direct = true;
  try {
    attempt = examine(folder, run_is_over);
    direct = rehash(folder, attempt->manifest, progress);
  } catch (const std::exception& e) {
    refuse_adoption(folder, e);
  }
  SaveJob& job = attempt->job;
  job.reason += ", adopted";
  job.keep = INT64_MAX;  // nothing goes
  const fs::path staging = job.staging_folder();
  bool moved = false;
  try {
    if (staging != folder) {
      make_directories(staging.parent_path());
      rename_to_new_name(folder, staging);
      moved = true;
    }
    const CommitResult result = commit_attempt(job);
    mark_verified(job.final_folder(), result.manifest_sha256,
                  fmt::format("adopted, every block read back, {}", way_of(direct)));
  } catch (const std::exception& e) {
    if (moved && fs::exists(staging)) rename_to_new_name(staging, folder);
    refuse_adoption(folder, e);
  }
  return inspect_folder(job.final_folder());
}

std::vector<AttemptInfo> scan_attempts(const fs::path& root, bool run_is_over) {
  std::vector<AttemptInfo> all;
  for (const std::string& name : readable_names_in(root / kStagingName)) {
    if (step_of_attempt(name) < 0) continue;
    AttemptInfo info{root / kStagingName / name, step_of_attempt(name), false, ""};
    info.reason = adoption_fault(info.folder, run_is_over);
    info.adoptable = info.reason.empty();
    all.push_back(std::move(info));
  }
  std::stable_sort(all.begin(), all.end(), [](const AttemptInfo& a, const AttemptInfo& b) { return a.step > b.step; });
  return all;
}

void sweep_attempts(const fs::path& root) {
  const std::vector<std::string> names = names_in(root / kStagingName);
  if (names.empty()) return;
  int64_t newest = -1;
  for (const CheckpointInfo& info : scan_checkpoints(root, Look::glance))
    if (info.state == CheckpointState::usable && info.kind == "training") newest = std::max(newest, info.step);
  fs::path kept;
  for (const AttemptInfo& info : scan_attempts(root, true))
    if (kept.empty() && info.adoptable && info.step > newest) kept = info.folder;
  for (const std::string& name : names)
    if (root / kStagingName / name != kept) remove_tree(root / kStagingName / name);
}

void drop_attempts_up_to(const fs::path& root, int64_t step) {
  for (const std::string& name : names_in(root / kStagingName))
    if (step_of_attempt(name) <= step) remove_tree(root / kStagingName / name);
}

}  // namespace trainctl
