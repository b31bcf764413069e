// lib/checkpoint/shard_writer.cpp -- S3 to S6: one rank's files from the staging image to the disk, and its receipt.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <thread>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/posix_io.h"
#include "checkpoint/save_job.h"
#include "checkpoint/staging.h"

namespace trainctl {
namespace fs = std::filesystem;
namespace {

template <class Word>
int64_t count_masked(const char* data, int64_t bytes, Word mask) {
  int64_t count = 0;
  for (int64_t at = 0; at + static_cast<int64_t>(sizeof(Word)) <= bytes; at += static_cast<int64_t>(sizeof(Word))) {
    Word word = 0;
    std::memcpy(&word, data + at, sizeof word);
    count += (word & mask) == mask;
  }
  return count;
}

// Infinities and NaNs: all exponent bits set.
int64_t count_non_finite(const char* data, int64_t bytes, std::string_view dtype) {
  if (dtype == "F32") return count_masked<uint32_t>(data, bytes, 0x7f800000u);
  if (dtype == "BF16") return count_masked<uint16_t>(data, bytes, uint16_t{0x7f80});
  if (dtype == "F64") return count_masked<uint64_t>(data, bytes, 0x7ff0000000000000ull);
  return 0;
}

// Of the tensors that meet the file's bytes [begin, end).
int64_t non_finite_in(const PlannedFile& file, const char* image, int64_t begin, int64_t end) {
  int64_t count = 0;
  const int64_t data = file.record.header_bytes;
  const auto first = std::partition_point(file.header.begin(), file.header.end(),
                                          [&](const SafetensorsTensor& t) { return data + t.end <= begin; });
  for (auto t = first; t != file.header.end() && data + t->begin < end; ++t) {
    const int64_t from = std::max(begin, data + t->begin), to = std::min(end, data + t->end);
    if (from < to) count += count_non_finite(image + from, to - from, t->dtype);
  }
  return count;
}

void write_file(const SaveJob& job, const PlannedFile& planned, char* image, Receipt& receipt) {
  const fs::path path = job.staging_folder() / planned.record.path;
  FileHandle file = FileHandle::create_exclusive(path);
  FileRecord record = planned.record;
  file.reserve(record.bytes);
  if (receipt.files.empty()) job.reached(SavePoint::created);

  std::vector<SafetensorsTensor> tensors = planned.header;
  const std::string header = encode_safetensors_header(
      tensors, shard_metadata(job.run_id, job.attempt, job.step, job.rank), record.header_bytes);
  ensure(static_cast<int64_t>(header.size()) == record.header_bytes, "a shard header outgrew its reserved space");
  std::memcpy(image, header.data(), header.size());

  for (int64_t at = 0; at < record.bytes; at += kBlockBytes) {
    const int64_t bytes = std::min(kBlockBytes, record.bytes - at);
    record.block_xxh128.push_back(xxh128_hex(image + at, static_cast<size_t>(bytes)));
    receipt.non_finite += non_finite_in(planned, image, at, at + bytes);
    if (at == 0 && receipt.files.empty()) {  // two writes, so that there is a moment with half a block on disk
      const int64_t half = bytes / 2;
      file.write_at(image, half, 0);
      job.reached(SavePoint::half_written);
      file.write_at(image + half, bytes - half, half);
    } else {
      file.write_at(image + at, bytes, at);
    }
    if (job.cancelled && *job.cancelled) fail(ErrorKind::checkpoint, "the run is ending");
  }
  record.file_root = file_root_of(record.block_xxh128);
  file.sync_data();
  if (file.size() != record.bytes)
    fail(ErrorKind::environment,
         fmt::format("{} has {} bytes after writing {}", path.string(), file.size(), record.bytes));
  file.close();
  receipt.files.push_back(std::move(record));
}

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
      ::unlink((job.root / kBallastName).c_str());
    }
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

PatientWait::PatientWait(double deadline_s)
    : end_(std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                  std::chrono::duration<double>(std::min(deadline_s, 1e9)))) {}

bool PatientWait::expired() const { return std::chrono::steady_clock::now() >= end_; }

void PatientWait::sleep() {
  std::this_thread::sleep_for(nap_);
  nap_ = std::min(nap_ * 3 / 2, std::chrono::milliseconds(200));
}

void write_shards(const SaveJob& job, StagingArea& staging, const std::string& fault) {
  Receipt receipt;
  receipt.attempt = job.attempt;
  receipt.step = job.step;
  receipt.rank = job.rank;
  receipt.ok = true;
  try {
    if (!fault.empty()) fail(ErrorKind::checkpoint, fault);
    for (const PlannedFile& file : staging.plan().files)
      write_file(job, file, staging.image() + file.image_offset, receipt);
    job.reached(SavePoint::written);
    sync_directory(job.staging_folder() / "data");
    job.reached(SavePoint::flushed);
    receipt.tensors = staging.plan().records;
    write_file_atomically(job.staging_folder() / receipt_path(job.rank), to_text(receipt));
  } catch (const std::exception& e) {
    leave_failed_receipt(job, e.what());
    throw;
  }
  job.reached(SavePoint::receipt);
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
