// lib/comm/transport_collectives.cpp -- the communication thread: queues of operations, each stepped a little at a
// time.
#include "comm/transport_collectives.h"

#include <fmt/format.h>
#include <sys/prctl.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "comm/exchange_plan.h"
#include "comm/execution.h"

namespace trainctl {
namespace {

using std::chrono::microseconds;

// What runs in order: the collectives of a group, or the messages of one direction to one peer of it.
struct QueueKey {
  int group = 0;
  int direction = 0;  // 0 collectives, 1 sends, 2 receives
  int peer = -1;
  auto operator<=>(const QueueKey&) const = default;
};

QueueKey key_of(const GroupInfo& group, const Request& request) {
  if (request.operation == Operation::send) return {group.id, 1, request.peer};
  if (request.operation == Operation::recv) return {group.id, 2, request.peer};
  return {group.id, 0, -1};
}

struct Queue {
  std::deque<std::unique_ptr<Execution>> waiting;  // the front one runs
  int64_t next_sequence = 0;
  std::optional<Error> broken;  // after a failure ranks are out of step: whatever follows fails too
};

// While messages are on their way but nothing moves, a transport that cannot wake us is polled: at once for a while,
// then with pauses that grow, because compute threads may need this core.
class Backoff {
 public:
  void reset() { idle_rounds_ = 0; }
  microseconds next() {
    constexpr int kYields = 20;
    constexpr int kMaxPause = 1000;  // one more microsecond per round: a pause stays far below the time waited already
    if (idle_rounds_ < kYields + kMaxPause) ++idle_rounds_;
    return idle_rounds_ <= kYields ? microseconds(0) : microseconds(5 + (idle_rounds_ - kYields));
  }

 private:
  int idle_rounds_ = 0;
};

class TransportCollectives final : public Collectives {
 public:
  TransportCollectives(std::function<std::unique_ptr<Transport>()> make, const CollectivesOptions& options)
      : message_chunk_bytes_(options.message_chunk_bytes) {
    check_chunk_limit(message_chunk_bytes_);
    std::promise<void> opened;
    std::future<void> result = opened.get_future();
    thread_ = std::thread(
        [this, make = std::move(make), promise = std::move(opened)]() mutable { run(make, std::move(promise)); });
    try {
      result.get();
    } catch (...) {
      thread_.join();
      throw;
    }
  }
  ~TransportCollectives() override {
    if (thread_.joinable()) stop(Stop::abandon);
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int64_t scratch_bytes(const GroupInfo& group, const Request& request) const override {
    return exchange_scratch_bytes(group, request, message_chunk_bytes_);
  }
  Event start(const GroupInfo& group, const Request& request, Event ready) override;
  Cost sent(const GroupInfo& group, Operation operation) const override {
    const std::lock_guard lock(sent_mutex_);
    const auto found = sent_.find({group.id, operation});
    return found == sent_.end() ? Cost{} : found->second;
  }
  void finalize() override {
    if (!thread_.joinable()) return;
    stop(Stop::close);
    if (close_failure_) throw Error(*close_failure_);
  }

 private:
  enum class Stop : uint8_t { no, close, abandon };

  void stop(Stop how) {
    {
      const std::lock_guard lock(mutex_);
      stop_ = how;
      wake_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  void run(const std::function<std::unique_ptr<Transport>()>& make, std::promise<void> opened);
  void loop();
  bool step_all();
  bool step_front(Queue& queue);
  void accept();
  void rest(Backoff& backoff);
  void close();

  const int64_t message_chunk_bytes_;
  int rank_ = 0, size_ = 1, max_tag_ = 0;
  std::thread thread_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Execution>> submitted_;
  bool wake_ = false;
  Stop stop_ = Stop::no;

  mutable std::mutex sent_mutex_;
  std::map<std::pair<int, Operation>, Cost> sent_;

  // Only the communication thread touches what follows.
  std::unique_ptr<Transport> transport_;
  bool transport_wakes_ = false;
  std::map<QueueKey, Queue> queues_;
  std::vector<std::unique_ptr<Execution>> failed_;  // kept: a transport may still read their headers
  std::optional<Error> broken_;                     // set: the transport may not be called any more
  std::optional<Error> close_failure_;
};

Event TransportCollectives::start(const GroupInfo& group, const Request& request, Event ready) {
  check_request(group, request);
  ensure(group.id >= 0 && group.id < max_tag_ / 2, "a group id does not fit the transport's tags");
  ensure(group.ranks[static_cast<size_t>(group.index)] == rank_, "a group was given with another rank's index");
  for (const int r : group.ranks) ensure(r >= 0 && r < size_, "a group names a rank outside the world");
  ensure(request.scratch || scratch_bytes(group, request) == 0, "a reduction was started without scratch");
  auto execution = std::make_unique<Execution>(group, request, std::move(ready));
  Event event = execution->event();
  {
    const std::lock_guard lock(mutex_);
    ensure(stop_ == Stop::no && thread_.joinable(), "an operation was started after finalize()");
    submitted_.push_back(std::move(execution));
    wake_ = true;
  }
  changed_.notify_one();
  return event;
}

void TransportCollectives::run(const std::function<std::unique_ptr<Transport>()>& make, std::promise<void> opened) {
  prctl(PR_SET_NAME, "comm");
  prctl(PR_SET_TIMERSLACK, 1000);  // nanoseconds; the default of 50 us would triple short pauses
  try {
    transport_ = make();
    transport_wakes_ = transport_->set_wake([this] {
      {
        const std::lock_guard lock(mutex_);
        wake_ = true;
      }
      changed_.notify_one();
    });
    transport_->open();
    rank_ = transport_->rank();
    size_ = transport_->size();
    max_tag_ = transport_->max_tag();
    if (message_chunk_bytes_ > transport_->max_message_bytes())
      fail(ErrorKind::config, fmt::format("message_chunk_bytes {} is more than this transport's {}",
                                          message_chunk_bytes_, transport_->max_message_bytes()));
  } catch (...) {
    opened.set_exception(std::current_exception());
    return;
  }
  opened.set_value();
  loop();
  close();
}

void TransportCollectives::loop() {
  Backoff backoff;
  for (;;) {
    accept();
    if (step_all()) {
      backoff.reset();
      continue;
    }
    {
      const std::lock_guard lock(mutex_);
      if (stop_ != Stop::no && submitted_.empty()) return;
    }
    rest(backoff);
  }
}

// Moves new requests into their queues.
void TransportCollectives::accept() {
  std::vector<std::unique_ptr<Execution>> fresh;
  {
    const std::lock_guard lock(mutex_);
    fresh.swap(submitted_);
    wake_ = false;
  }
  for (std::unique_ptr<Execution>& execution : fresh) {
    Queue& queue = queues_[key_of(execution->group(), execution->request())];
    execution->set_sequence(queue.next_sequence++);
    queue.waiting.push_back(std::move(execution));
  }
}

bool TransportCollectives::step_all() {
  bool moved = false;
  for (auto& [key, queue] : queues_)
    if (!queue.waiting.empty()) moved |= step_front(queue);
  return moved;
}

// One step of the queue's front; true when something moved.
bool TransportCollectives::step_front(Queue& queue) {
  Execution& front = *queue.waiting.front();
  try {
    if (queue.broken) throw Error(*queue.broken);
    if (broken_) throw Error(*broken_);
    if (!front.opened()) {
      if (!front.ready()) return false;
      const std::pair<int, Operation> row{front.group().id, front.request().operation};
      front.open(*transport_, message_chunk_bytes_, [this, row](int64_t bytes) {
        const std::lock_guard lock(sent_mutex_);
        sent_[row] += {1, bytes};
      });
    }
    const bool moved = front.step();
    if (!front.finished()) return moved;
    front.finish();
    queue.waiting.pop_front();
  } catch (const Error& error) {
    if (!queue.broken)
      queue.broken = Error(error.kind(), fmt::format("an earlier operation of this group failed: {}", error.what()));
    if (!transport_->can_cancel() && !broken_)
      broken_ = Error(error.kind(), fmt::format("an earlier operation failed: {}", error.what()));
    std::unique_ptr<Execution> failed = std::move(queue.waiting.front());
    queue.waiting.pop_front();
    failed->finish_with(error);
    failed_.push_back(std::move(failed));
  }
  return true;
}

// Sleeps until something may have changed. Polls only what cannot wake this thread.
void TransportCollectives::rest(Backoff& backoff) {
  bool polls = false;
  for (const auto& [key, queue] : queues_)
    if (!queue.waiting.empty()) polls |= !transport_wakes_ || !queue.waiting.front()->opened();
  std::unique_lock lock(mutex_);
  if (!polls) {
    changed_.wait(lock, [&] { return wake_; });
    return;
  }
  const microseconds pause = backoff.next();
  if (pause.count() > 0) {
    changed_.wait_for(lock, pause, [&] { return wake_; });
  } else {
    lock.unlock();
    std::this_thread::yield();
  }
}

void TransportCollectives::close() {
  for (auto& [key, queue] : queues_)
    for (std::unique_ptr<Execution>& execution : queue.waiting) {
      execution->finish_with(
          Error(ErrorKind::comm, "the communication backend was closed before this operation ended"));
      failed_.push_back(std::move(execution));
    }
  queues_.clear();
  if (broken_ || (!failed_.empty() && !transport_->can_cancel())) {
    // Never freed: the transport may still write there. The process is about to end.
    for (std::unique_ptr<Execution>& execution : failed_) static_cast<void>(execution.release());
    static_cast<void>(transport_.release());
    return;
  }
  failed_.clear();
  bool abandon = false;
  {
    const std::lock_guard lock(mutex_);
    abandon = stop_ == Stop::abandon;
  }
  try {
    if (!abandon) transport_->close();
  } catch (const Error& error) {
    close_failure_ = error;
  }
  transport_.reset();
}

}  // namespace

std::unique_ptr<Collectives> make_transport_collectives(std::function<std::unique_ptr<Transport>()> make,
                                                        const CollectivesOptions& options) {
  return std::make_unique<TransportCollectives>(std::move(make), options);
}

}  // namespace trainctl
