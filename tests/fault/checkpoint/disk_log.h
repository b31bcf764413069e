// tests/fault/checkpoint/disk_log.h -- what a traced process did to the files below one folder, as a list of operations
// on inodes: the write log that the power-loss model replays.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace trainctl::testing {

struct DiskOp {
  enum class Kind : uint8_t {
    add,       // `name` in `dir` is now `inode` (a new file or folder)
    remove,    // `name` is no longer in `dir`
    rename,    // `name` in `dir` -> `new_name` in `new_dir`; that one's old inode, if any, is replaced
    write,     // `data` at `offset` of `inode`
    set_size,  // of `inode`, to `offset`
    sync,      // of `inode`, a file or a folder
  };
  Kind kind = Kind::sync;
  int inode = -1, dir = -1, new_dir = -1;
  std::string name{}, new_name{}, data{};
  int64_t offset = 0;
};

struct DiskNode {
  bool is_folder = false;
  std::string content;                 // of a file
  std::map<std::string, int> entries;  // of a folder
};

// Performs one operation to a tree of nodes (sync changes nothing).
void perform(const DiskOp& op, std::vector<DiskNode>& nodes);

struct DiskLog {
  std::vector<DiskNode> before;  // node 0 is the folder itself; nodes that are made later are here too, empty
  std::vector<DiskOp> ops;
};

std::vector<DiskNode> read_tree(const std::filesystem::path& folder);

// True when both hold the same names, and files with the same bytes.
bool same_tree(const std::vector<DiskNode>& a, int at_a, const std::vector<DiskNode>& b, int at_b);

// `before`: the tree when the trace began. `log`: of strace -f -xx with all data, of kFileCalls and process creation.
// Writes that are no system calls of their own (io_uring) are taken from the files as they are now, in pieces of 4096
// bytes, just before the file's first sync. Throws when the operations do not give the tree that is now on disk.
DiskLog disk_log_of(const std::string& log, const std::filesystem::path& folder, std::vector<DiskNode> before);

}  // namespace trainctl::testing
