// lib/checkpoint/io_queue.cpp -- choosing a queue, and the one made of threads.
#include "checkpoint/io_queue.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"

namespace trainctl {
namespace {

constexpr int kThreads = 4;  // large transfers: more in flight bring nothing

class ThreadQueue final : public IoQueue {
 public:
  explicit ThreadQueue(int depth) : depth_(depth) {
    try {
      for (int i = 0; i < std::min(depth, kThreads); ++i) threads_.emplace_back([this] { serve(); });
    } catch (...) {
      stop();
      throw;
    }
  }
  ~ThreadQueue() override { stop(); }

  int depth() const override { return depth_; }
  std::string_view name() const override { return "pread/pwrite"; }

  void submit(const IoRequest& request) override {
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(request);
    }
    work_.notify_one();
  }

  IoCompletion wait() override {
    std::unique_lock lock(mutex_);
    finished_.wait(lock, [this] { return !done_.empty(); });
    const IoCompletion completion = done_.front();
    done_.pop_front();
    return completion;
  }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      work_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      const IoRequest r = waiting_.front();
      waiting_.pop_front();
      lock.unlock();
      const auto bytes = static_cast<size_t>(r.bytes);
      const ssize_t moved = r.write ? ::pwrite(r.fd, r.data, bytes, r.offset) : ::pread(r.fd, r.data, bytes, r.offset);
      const int code = errno;
      lock.lock();
      done_.push_back({r.tag, moved < 0 ? -code : moved});
      finished_.notify_one();
    }
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    work_.notify_all();
    for (std::thread& t : threads_) t.join();
  }

  int depth_;
  std::mutex mutex_;
  std::condition_variable work_, finished_;
  std::deque<IoRequest> waiting_;
  std::deque<IoCompletion> done_;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<IoQueue> make_thread_queue(int depth) { return std::make_unique<ThreadQueue>(depth); }

OpenedQueue open_queue(const IoOptions& options) {
  ensure(options.depth >= 1, "an I/O queue needs a depth of at least 1");
  OpenedQueue opened;
  if (options.use_uring) opened.queue = make_uring_queue(options.depth, opened.note);
  if (!opened.queue) opened.queue = make_thread_queue(options.depth);
  if (options.wrap) opened.queue = options.wrap(std::move(opened.queue));
  return opened;
}

}  // namespace trainctl
