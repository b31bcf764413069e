// lib/checkpoint/transfers.h -- whole transfers over an IoQueue: what a single attempt leaves undone is asked for
// again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/io_queue.h"
#include "checkpoint/posix_io.h"

namespace trainctl {

// Files, memory and offsets of direct transfers are multiples of this.
inline constexpr int64_t kDirectAlignment = 4096;

struct Transfer {
  FileHandle* file = nullptr;  // must outlive the transfer
  bool write = false;
  char* data = nullptr;
  int64_t offset = 0;
  int64_t bytes = 0;  // asked for
  int64_t need = 0;   // done when so many have moved: a read may reach past the end of its file
  uint64_t tag = 0;
};

// EINTR and short counts go on, EAGAIN for a while; no progress twice in a row, and every other error, is a failure. A
// file that accepts O_DIRECT and then refuses the transfer (EINVAL), or leaves an unaligned rest, goes on through the
// page cache. Belongs to one thread.
class Transfers {
 public:
  explicit Transfers(const IoOptions& options);
  ~Transfers();  // waits for what is in flight
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  // Switches `file` to O_DIRECT if the options want it and the file system can.
  void prepare(FileHandle& file);

  bool full() const { return active_ == static_cast<int>(slots_.size()); }
  bool idle() const { return active_ == 0; }
  void start(const Transfer& transfer);  // requires !full()
  // Blocks until one of those in flight is whole, and returns its tag. Throws Error{environment} for a failed write,
  // Error{checkpoint} for a failed read: action, path, cause.
  uint64_t finish_one();
  void abandon() noexcept;  // waits until nothing is in flight and forgets it

  // "io_uring, direct", "pread/pwrite, page cache (io_uring is refused: ...; O_DIRECT is refused)". Complete after the
  // first transfer of each file.
  std::string path_in_use() const;

 private:
  struct Slot {
    Transfer transfer;
    int64_t moved = 0;
    bool busy = false;
    int stalls = 0;  // attempts in a row without progress
  };
  void submit(size_t slot);
  bool account(Slot& slot, int64_t result);  // true: whole

  OpenedQueue opened_;
  bool use_direct_;
  bool direct_ = false, cached_ = false;  // seen among the files
  std::string direct_note_;
  std::vector<Slot> slots_;
  int active_ = 0;
};

}  // namespace trainctl
