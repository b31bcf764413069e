// lib/checkpoint/io_queue.h -- several reads and writes of open files in flight at once: io_uring where the kernel
// grants it, else a few threads with pread and pwrite.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace trainctl {

struct IoRequest {
  int fd = -1;
  bool write = false;
  void* data = nullptr;  // must stay valid until the request's completion was returned
  int64_t bytes = 0, offset = 0;
  uint64_t tag = 0;  // comes back with the completion
};

struct IoCompletion {
  uint64_t tag = 0;
  int64_t result = 0;  // bytes moved (fewer than asked for are legal), or -errno
};

// One attempt per request: nothing is retried here (Transfers does). Belongs to one thread.
class IoQueue {
 public:
  virtual ~IoQueue() = default;  // waits for what is in flight
  virtual int depth() const = 0;
  virtual void submit(const IoRequest& request) = 0;  // at most depth() between submit and wait
  virtual IoCompletion wait() = 0;                    // any of those in flight; there must be one
  virtual std::string_view name() const = 0;          // "io_uring", "pread/pwrite"
};

struct IoOptions {
  bool use_uring = true;   // false: not even tried
  bool use_direct = true;  // O_DIRECT, past the page cache
  int depth = 8;           // transfers in flight
  // May put something between the queue and its user (tests: faults). Empty: nothing.
  std::function<std::unique_ptr<IoQueue>(std::unique_ptr<IoQueue>)> wrap;
};

// Null with a reason when the kernel refuses io_uring (seccomp, sysctl, age) or this build has no liburing.
std::unique_ptr<IoQueue> make_uring_queue(int depth, std::string& why_not);
std::unique_ptr<IoQueue> make_thread_queue(int depth);

struct OpenedQueue {
  std::unique_ptr<IoQueue> queue;
  std::string note;  // why it is not io_uring; "" when it is, or was not asked for
};
OpenedQueue open_queue(const IoOptions& options);

}  // namespace trainctl
