// lib/checkpoint/save_job.h -- everything the writer threads of one save need, captured at the step boundary.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/format.h"
#include "checkpoint/io_queue.h"

namespace trainctl {

class StagingArea;

// The protocol's steps, in order; half_written is inside S4. Ranks other than 0 end with `receipt`.
enum class SavePoint : uint8_t {
  created,       // S3
  half_written,  // S4, some bytes of the first file
  written,       // S4
  flushed,       // S5
  receipt,       // S6
  gathered,      // S7
  manifest,      // S8
  published,     // S9
  committed,     // S10
  latest,        // S11
  retained,      // S12
};
inline constexpr int kSavePoints = 11;

// A file of meta/, as the caller wants it: {"meta/config.json", "{...}"}.
struct MetaFile {
  std::string path, content;
};

struct SaveJob {
  std::filesystem::path root;  // the run's checkpoint folder
  std::string run_id, attempt, reason, parent;
  std::string topology, provenance;  // JSON objects
  std::vector<MetaFile> meta;        // rank 0's
  std::vector<StateClass> derived;   // classes of the state that follow from others, as the caller declares
  int64_t step = 0, rank = 0, world = 1;
  ScalarState scalars;
  double deadline_s = 600;
  int64_t keep = 3, keep_every_steps = 0;
  bool readback = false;  // read the files back after the commit (readback.h)
  IoOptions io;
  int64_t write_limit_bytes_per_s = 0;           // of this rank; 0: none
  std::function<void(SavePoint)> on_point;       // may be empty; a throw fails the attempt there
  const std::atomic<bool>* cancelled = nullptr;  // the run is going down: give up soon

  std::filesystem::path staging_folder() const;  // <root>/.staging/step-00001200.<attempt>
  std::filesystem::path final_folder() const;    // <root>/step-00001200
  void reached(SavePoint point) const;           // calls the hook; throws Error{checkpoint} when cancelled
};

inline constexpr std::string_view kStagingName = ".staging";
inline constexpr std::string_view kBallastName = "ballast";
inline constexpr std::string_view kTrashPrefix = ".trash-";
inline constexpr std::string_view kSupersededPrefix = ".superseded-";

int64_t wall_clock_ns();

// Waits that start short (5 ms) and grow to `longest`, against one deadline.
class PatientWait {
 public:
  explicit PatientWait(double deadline_s, std::chrono::milliseconds longest = std::chrono::milliseconds(200));
  bool expired() const;
  void sleep();

 private:
  std::chrono::steady_clock::time_point end_;
  std::chrono::milliseconds longest_, nap_{5};
};

// S3-S6 on one rank: creates, writes, flushes its files from the staging image, then puts the receipt in place. Throws
// Error on failure, after trying to leave a receipt with status "failed" (the ballast is given up for it when the disk
// is full). `fault`: why the state could not be staged; then nothing but the failed receipt is written. "" for none.
// Returns how the bytes went (Transfers::path_in_use).
std::string write_shards(const SaveJob& job, StagingArea& staging, const std::string& fault);

// S7-S12 on rank 0. Throws Error when the attempt was not committed; abandon_attempt cleans up after it.
struct CommitResult {
  std::string manifest_sha256;
  std::string note;      // what failed after the commit point (LATEST, retention): the checkpoint itself is good
  std::string damage{};  // what reading it back found: it was committed, and is marked UNUSABLE
};
// What rank 0 learnt of a plan from the receipts of a save that it committed. Those of the next save repeat their lists
// of tensors byte for byte, unless the plan has changed on some rank: then everything is read, merged and checked anew.
struct KnownPlan {
  std::vector<std::string> receipts;  // by rank: its text, of which the list of tensors counts
  std::vector<FileRecord> files;      // of which names and sizes count
  std::vector<TensorRecord> tensors;  // of all ranks, merged, and checked against the files
  std::string text;                   // of `tensors`, in a manifest
  std::vector<std::string> buffers;   // memory for the next receipts: fresh memory costs more than reading them
};
// `known`: of the save before, when this run has made one; then that of this save, or empty. May be null.
CommitResult commit_attempt(const SaveJob& job, KnownPlan* known = nullptr);

// S7 and the content of S8: waits for the receipts in `folder` and makes the manifest that they give. Throws Error when
// one is missing at the deadline, failed, or of another attempt, when coverage is not exact, or a state class is
// absent.
Manifest manifest_of_receipts(const SaveJob& job, const std::filesystem::path& folder);

// Gives the attempt up: writes UNUSABLE with `reason` into its staging folder and frees its data. Never throws.
void abandon_attempt(const SaveJob& job, const std::string& reason) noexcept;

// Why rank 0 gave the attempt up, "" when it did not (or nothing tells).
std::string abandoned_reason(const SaveJob& job);

// The other ranks: waits until rank 0 has committed or given up. Throws Error{checkpoint} with the reason if it gave
// up.
void await_commit(const SaveJob& job);

}  // namespace trainctl
