// lib/checkpoint/shard_writer.cpp -- S3 to S6 on one rank: its files, then its receipt; and how the others wait.
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <thread>

#include "base/atomic_file.h"
#include "base/error.h"
#include "checkpoint/admission.h"
#include "checkpoint/image_writer.h"
#include "checkpoint/posix_io.h"
#include "checkpoint/save_job.h"
#include "checkpoint/staging.h"

namespace trainctl {
namespace fs = std::filesystem;
namespace {

// A full disk must not keep the other ranks waiting for the deadline: the ballast makes room for the bad news.
void leave_failed_receipt(const SaveJob& job, const std::string& reason) noexcept {
  for (int attempt = 0; attempt < 2; ++attempt) {
    try {
      Receipt receipt;
      receipt.attempt = job.attempt;
      receipt.step = job.step;
      receipt.rank = job.rank;
      receipt.reason = reason;
      // It is read by a running rank 0 or by nobody; a disk that cannot sync must not silence it.
      put_small_file(job.staging_folder() / receipt_path(job.rank), to_text(receipt));
      return;
    } catch (const std::exception&) {
      give_up_ballast(job.root);
    }
  }
}

// A receipt in its place is a word given: rank 0 may have taken it, and a failed one in its stead would damage what
// that commits. So its folder's sync may fail here; rank 0 syncs the folder too, before it commits.
void give_receipt(const fs::path& path, const std::string& text) {
  try {
    write_file_atomically(path, text);
  } catch (const Error&) {
    if (regular_file_bytes(path) < 0) throw;
  }
}

// A record that may not be there, or may be moved away while it is read.
template <class T>
std::optional<T> try_read(const fs::path& path, T (*parse)(std::string_view, const std::string&)) {
  if (regular_file_bytes(path) < 0) return std::nullopt;
  try {
    return parse(read_small_file(path, kMaxRecordBytes), path.string());
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

fs::path SaveJob::staging_folder() const {
  return root / kStagingName / fmt::format("{}.{}", folder_name_of(step), attempt);
}

fs::path SaveJob::final_folder() const { return root / folder_name_of(step); }

void SaveJob::reached(SavePoint point) const {
  if (on_point) on_point(point);
  if (cancelled && *cancelled) fail(ErrorKind::checkpoint, "the run is ending");
}

int64_t wall_clock_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

PatientWait::PatientWait(double deadline_s, std::chrono::milliseconds longest)
    : end_(std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                  std::chrono::duration<double>(std::min(deadline_s, 1e9)))),
      longest_(longest) {}

bool PatientWait::expired() const { return std::chrono::steady_clock::now() >= end_; }

void PatientWait::sleep() {
  std::this_thread::sleep_for(nap_);
  nap_ = std::min(nap_ * 3 / 2, longest_);
}

std::string write_shards(const SaveJob& job, StagingArea& staging, const std::string& fault) {
  std::string io_path;
  Receipt receipt;
  receipt.attempt = job.attempt;
  receipt.step = job.step;
  receipt.rank = job.rank;
  receipt.ok = true;
  try {
    if (!fault.empty()) fail(ErrorKind::checkpoint, fault);
    WrittenFiles written = write_images(job, staging);
    receipt.files = std::move(written.files);
    receipt.non_finite = written.non_finite;
    io_path = std::move(written.io_path);
    job.reached(SavePoint::written);
    sync_directory(job.staging_folder() / "data");
    job.reached(SavePoint::flushed);
    receipt.tensors = staging.plan().records;
    give_receipt(job.staging_folder() / receipt_path(job.rank), to_text(receipt));
  } catch (const std::exception& e) {
    leave_failed_receipt(job, e.what());
    throw;
  }
  job.reached(SavePoint::receipt);
  return io_path;
}

std::string abandoned_reason(const SaveJob& job) {
  const auto unusable = try_read(job.staging_folder() / kUnusableName, unusable_from_text);
  return unusable ? unusable->reason : "";
}

void await_commit(const SaveJob& job) {
  int absent = 0;
  // Rank 0 spends its own deadline on the receipts; what follows is short.
  for (PatientWait wait(job.deadline_s + 60);; wait.sleep()) {
    if (job.cancelled && *job.cancelled) fail(ErrorKind::checkpoint, "the run is ending");
    const auto committed = try_read(job.final_folder() / kCommittedName, committed_from_text);
    if (committed && committed->attempt == job.attempt) return;
    if (const std::string why = abandoned_reason(job); !why.empty()) fail(ErrorKind::checkpoint, why);
    // Seen twice in a row: a rename between the two looks is not an abandoned attempt. A look that fails shows nothing.
    const auto may_exist = [](const fs::path& path) {
      std::error_code unknown;
      return fs::exists(path, unknown) || unknown;
    };
    const bool gone = !may_exist(job.staging_folder()) && !may_exist(job.final_folder());
    absent = gone ? absent + 1 : 0;
    if (absent >= 2) fail(ErrorKind::checkpoint, "rank 0 gave this save up");
    if (wait.expired()) fail(ErrorKind::checkpoint, "rank 0 neither committed this save nor gave it up in time");
  }
}

}  // namespace trainctl
