// lib/checkpoint/uring_queue.cpp -- the queue over io_uring (liburing).
#include <fmt/format.h>
#include <liburing.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "checkpoint/io_queue.h"

namespace trainctl {
namespace {

constexpr int kPatience = 1000;

class UringQueue final : public IoQueue {
 public:
  // Throws std::system_error with what the kernel says.
  explicit UringQueue(int depth) : depth_(depth) {
    refuse_if(io_uring_queue_init(static_cast<unsigned>(depth), &ring_, 0));
    try {
      refuse_if(probe());
    } catch (...) {
      io_uring_queue_exit(&ring_);
      throw;
    }
  }

  ~UringQueue() override {
    try {
      while (in_flight_ > 0) wait();
    } catch (const std::exception&) {  // nothing in flight can be waited for any more
    }
    io_uring_queue_exit(&ring_);
  }

  int depth() const override { return depth_; }
  std::string_view name() const override { return "io_uring"; }

  void submit(const IoRequest& r) override {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    ensure(entry != nullptr, "more requests than the ring holds");
    const auto bytes = static_cast<unsigned>(r.bytes);
    const auto offset = static_cast<__u64>(r.offset);
    if (r.write)
      io_uring_prep_write(entry, r.fd, r.data, bytes, offset);
    else
      io_uring_prep_read(entry, r.fd, r.data, bytes, offset);
    io_uring_sqe_set_data64(entry, r.tag);
    push();
    ++in_flight_;
  }

  IoCompletion wait() override {
    io_uring_cqe* entry = nullptr;
    int code = 0;
    do code = io_uring_wait_cqe(&ring_, &entry);
    while (code == -EINTR || code == -EAGAIN);
    if (code < 0) fail(ErrorKind::environment, "io_uring: cannot wait: " + std::generic_category().message(-code));
    const IoCompletion completion{io_uring_cqe_get_data64(entry), entry->res};
    io_uring_cqe_seen(&ring_, entry);
    --in_flight_;
    return completion;
  }

 private:
  static void refuse_if(int code) {
    if (code < 0) throw std::system_error(-code, std::generic_category());
  }

  // A sandbox may grant the set-up and refuse the use: one empty request tells. Old kernels lack the operations.
  int probe() {
    io_uring_probe* known = io_uring_get_probe_ring(&ring_);
    const bool able = known && io_uring_opcode_supported(known, IORING_OP_READ) != 0 &&
                      io_uring_opcode_supported(known, IORING_OP_WRITE) != 0;
    io_uring_free_probe(known);
    if (!able) return -EOPNOTSUPP;
    io_uring_prep_nop(io_uring_get_sqe(&ring_));
    if (const int code = io_uring_submit(&ring_); code < 0) return code;
    io_uring_cqe* entry = nullptr;
    if (const int code = io_uring_wait_cqe(&ring_, &entry); code < 0) return code;
    io_uring_cqe_seen(&ring_, entry);
    return 0;
  }

  void push() {
    int code = 0;
    for (int again = 0; again < kPatience; ++again) {
      code = io_uring_submit(&ring_);
      if (code == -EINTR) continue;
      if (code != -EAGAIN) break;  // EAGAIN: the kernel is short of memory for the moment
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (code < 0) fail(ErrorKind::environment, "io_uring: cannot submit: " + std::generic_category().message(-code));
  }

  int depth_, in_flight_ = 0;
  io_uring ring_{};
};

}  // namespace

std::unique_ptr<IoQueue> make_uring_queue(int depth, std::string& why_not) {
  try {
    return std::make_unique<UringQueue>(depth);
  } catch (const std::system_error& e) {
    why_not = fmt::format("io_uring is refused: {}", e.code().message());
    return nullptr;
  }
}

}  // namespace trainctl
