// lib/comm/threads_transport.cpp -- one mailbox per rank; a message is copied once, from sender to receiver, by whoever
// comes second. Small messages are copied into the mailbox, so that their sender need not wait.
#include "comm/threads_transport.h"

#include <fmt/format.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"

namespace trainctl {
namespace {

constexpr int64_t kEagerBytes = 4096;

// Shared by the mailbox and the Transfer that waits for it.
struct Post {
  enum class State : uint8_t { waiting, copying, done };
  std::atomic<State> state{State::waiting};
  const void* from = nullptr;  // sends
  void* to = nullptr;          // receives
  int64_t bytes = 0;           // size of the message; receives: capacity, then what came
  bool too_long = false;
  int owner = 0;            // rank
  std::vector<char> eager;  // the message itself, when small
};
using PostPtr = std::shared_ptr<Post>;

struct Channel {  // of one source and tag, at one destination; one of the two is empty
  std::deque<PostPtr> sends, receives;
};

struct Mailbox {
  std::mutex mutex;
  std::map<std::pair<int, int>, Channel> channels;
  std::mutex wake_mutex;  // held during the call, so that its owner cannot go meanwhile
  std::function<void()> wake;
};

}  // namespace

class ThreadsExchange {
 public:
  explicit ThreadsExchange(int size) : mailboxes_(static_cast<size_t>(size)) {}
  int size() const { return static_cast<int>(mailboxes_.size()); }

  void set_wake(int rank, std::function<void()> wake) {
    Mailbox& box = mailbox(rank);
    const std::lock_guard lock(box.wake_mutex);
    box.wake = std::move(wake);
  }
  void post_send(int to, int tag, const PostPtr& send) {
    Mailbox& box = mailbox(to);
    PostPtr receive;
    {
      const std::lock_guard lock(box.mutex);
      Channel& channel = box.channels[{send->owner, tag}];
      if (channel.receives.empty()) {
        if (send->bytes <= kEagerBytes) {
          const char* bytes = static_cast<const char*>(send->from);
          send->eager.assign(bytes, bytes + send->bytes);
          send->from = send->eager.data();
          send->state.store(Post::State::done, std::memory_order_release);
        }
        channel.sends.push_back(send);
      } else {
        receive = take(channel.receives);
        send->state.store(Post::State::copying, std::memory_order_relaxed);
      }
    }
    if (receive) deliver(*send, *receive);
    wake(to);
  }
  void post_receive(int from, int tag, const PostPtr& receive) {
    Mailbox& box = mailbox(receive->owner);
    PostPtr send;
    bool eager = false;
    {
      const std::lock_guard lock(box.mutex);
      Channel& channel = box.channels[{from, tag}];
      if (channel.sends.empty()) {
        channel.receives.push_back(receive);
        return;
      }
      eager = channel.sends.front()->state.load(std::memory_order_relaxed) == Post::State::done;
      send = take(channel.sends);
    }
    deliver(*send, *receive);
    if (!eager) wake(send->owner);
  }
  // Takes a post back; when the other side is copying right now, waits until it has.
  void cancel(int destination, const PostPtr& post) {
    Mailbox& box = mailbox(destination);
    {
      const std::lock_guard lock(box.mutex);
      for (auto& [key, channel] : box.channels) {
        std::erase(channel.sends, post);
        std::erase(channel.receives, post);
      }
    }
    while (post->state.load(std::memory_order_acquire) == Post::State::copying) std::this_thread::yield();
  }
  void abort(const std::string& reason) {
    {
      const std::lock_guard lock(abort_mutex_);
      if (aborted_.load(std::memory_order_relaxed)) return;
      abort_reason_ = reason;
      aborted_.store(true, std::memory_order_release);
    }
    for (int r = 0; r < size(); ++r) wake(r);
  }
  void check_aborted() const {
    if (aborted_.load(std::memory_order_acquire)) fail(ErrorKind::rank_failed, abort_reason_);
  }

 private:
  Mailbox& mailbox(int rank) { return mailboxes_[static_cast<size_t>(rank)]; }

  static PostPtr take(std::deque<PostPtr>& queue) {
    PostPtr post = std::move(queue.front());
    queue.pop_front();
    if (post->state.load(std::memory_order_relaxed) == Post::State::waiting)
      post->state.store(Post::State::copying, std::memory_order_relaxed);
    return post;
  }
  static void deliver(Post& send, Post& receive) {
    receive.too_long = send.bytes > receive.bytes;
    const int64_t bytes = std::min(send.bytes, receive.bytes);
    if (bytes > 0) std::memcpy(receive.to, send.from, static_cast<size_t>(bytes));
    receive.bytes = send.bytes;
    receive.state.store(Post::State::done, std::memory_order_release);
    send.state.store(Post::State::done, std::memory_order_release);
  }
  void wake(int rank) {
    Mailbox& box = mailbox(rank);
    const std::lock_guard lock(box.wake_mutex);
    if (box.wake) box.wake();
  }

  std::vector<Mailbox> mailboxes_;
  std::mutex abort_mutex_;
  std::atomic<bool> aborted_{false};
  std::string abort_reason_;
};

namespace {

class ThreadsTransfer final : public Transfer {
 public:
  ThreadsTransfer(ThreadsExchange& exchange, int destination, PostPtr post)
      : exchange_(exchange), destination_(destination), post_(std::move(post)) {}
  ~ThreadsTransfer() override {
    if (post_->state.load(std::memory_order_acquire) != Post::State::done) exchange_.cancel(destination_, post_);
  }
  bool test() override {
    if (post_->state.load(std::memory_order_acquire) != Post::State::done) {
      exchange_.check_aborted();
      return false;
    }
    if (post_->too_long)
      fail(ErrorKind::comm, fmt::format("a message of {} bytes came, longer than its receive", post_->bytes));
    return true;
  }
  int64_t received() const override { return post_->bytes; }
  void cancel() override {
    if (post_->state.load(std::memory_order_acquire) != Post::State::done) exchange_.cancel(destination_, post_);
  }

 private:
  ThreadsExchange& exchange_;
  int destination_;
  PostPtr post_;
};

class ThreadsTransport final : public Transport {
 public:
  ThreadsTransport(std::shared_ptr<ThreadsExchange> exchange, int rank) : exchange_(std::move(exchange)), rank_(rank) {}
  ~ThreadsTransport() override { exchange_->set_wake(rank_, nullptr); }
  void open() override {}
  void close() override {}
  int rank() const override { return rank_; }
  int size() const override { return exchange_->size(); }
  int64_t max_message_bytes() const override { return INT64_MAX; }
  int max_tag() const override { return INT32_MAX; }
  TransferPtr isend(int peer, int tag, const void* data, int64_t bytes) override {
    exchange_->check_aborted();
    auto post = std::make_shared<Post>();
    post->from = data;
    post->bytes = bytes;
    post->owner = rank_;
    exchange_->post_send(peer, tag, post);
    return std::make_unique<ThreadsTransfer>(*exchange_, peer, std::move(post));
  }
  TransferPtr irecv(int peer, int tag, void* data, int64_t capacity_bytes) override {
    exchange_->check_aborted();
    auto post = std::make_shared<Post>();
    post->to = data;
    post->bytes = capacity_bytes;
    post->owner = rank_;
    exchange_->post_receive(peer, tag, post);
    return std::make_unique<ThreadsTransfer>(*exchange_, rank_, std::move(post));
  }
  bool can_cancel() const override { return true; }
  bool set_wake(std::function<void()> wake) override {
    exchange_->set_wake(rank_, std::move(wake));
    return true;
  }

 private:
  std::shared_ptr<ThreadsExchange> exchange_;
  int rank_;
};

}  // namespace

std::shared_ptr<ThreadsExchange> make_threads_exchange(int size) {
  ensure(size >= 1, "a threads hub needs at least one rank");
  return std::make_shared<ThreadsExchange>(size);
}

void abort_exchange(ThreadsExchange& exchange, const std::string& reason) { exchange.abort(reason); }

std::unique_ptr<Transport> make_threads_transport(std::shared_ptr<ThreadsExchange> exchange, int rank) {
  ensure(rank >= 0 && rank < exchange->size(), "a rank outside the threads hub");
  return std::make_unique<ThreadsTransport>(std::move(exchange), rank);
}

}  // namespace trainctl
