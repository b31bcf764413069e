// tests/fault/checkpoint/crash_disk.h -- a disk that loses power: what is surely on it, and what may or may not be.
#pragma once

#include <filesystem>
#include <random>
#include <vector>

#include "fault/checkpoint/disk_log.h"

namespace trainctl::testing {

// What POSIX promises, and no more. Data of a file are there after its fsync or fdatasync; before, each write may be
// there, or not, or some of its 512-byte sectors. A folder's entries are there after the folder's fsync; before, each
// change may be there or not, whatever became of the others. A rename within a folder is one change; one between two
// folders may leave both names, never none.
class CrashDisk {
 public:
  explicit CrashDisk(const DiskLog& log);

  void advance();  // the next operation happens
  size_t done() const { return done_; }
  bool at_end() const { return done_ == log_.ops.size(); }

  size_t open_questions() const;  // changes that may or may not be there

  enum class Fate : uint8_t { lost, kept, torn };  // torn: some sectors of a write; for other changes: kept
  // The tree after a power cut now; `fates` in the order of the operations. `random` tears writes.
  std::vector<DiskNode> tree_after(const std::vector<Fate>& fates, std::mt19937_64& random) const;

 private:
  struct Change {
    const DiskOp* op;
    bool added_for_sure = false;  // a rename between folders: its second half is on disk, the first may be not
  };
  const DiskLog& log_;
  size_t done_ = 0;
  std::vector<DiskNode> sure_;
  std::vector<Change> unsure_;
};

void write_tree(const std::vector<DiskNode>& nodes, int at, const std::filesystem::path& to);

// A digest of the tree below node 0, equal for equal trees.
std::string digest_of(const std::vector<DiskNode>& nodes);

}  // namespace trainctl::testing
