// lib/comm/recorder.h -- the flight recorder of one rank: the last operations it issued, and what it is doing now, so
// that a hang or a mismatch names the rank, the group and the operation.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "comm/collectives.h"

namespace trainctl {

struct OperationRecord {
  // From 0, equal on all ranks that take part: collectives count per group, messages per group, direction and peer.
  int64_t sequence = 0;
  int group = 0;
  std::string axis;
  std::vector<int> ranks;  // of the group
  Operation operation = Operation::barrier;
  int64_t bytes = 0;
  int peer = -1;
  int64_t start_ns = 0, end_ns = 0;  // steady clock; end 0: not finished
};

// "all_reduce #12 in the tensor group (ranks 0,1), 4096 bytes, not finished"
std::string describe(const OperationRecord& record);

// Thread safe. set_place and set_step belong to the compute thread; end() is called by the communication thread.
class Recorder {
 public:
  explicit Recorder(size_t capacity = 256) : capacity_(capacity) {}
  int64_t begin(const GroupInfo& group, const Request& request);  // returns a ticket
  void end(int64_t ticket);
  void set_step(int64_t step) { step_.store(step, std::memory_order_relaxed); }
  int64_t step() const { return step_.load(std::memory_order_relaxed); }
  // What the compute thread is doing: a static string plus an optional layer; -1: none. Cheap: called per module.
  // place() is "attention, layer 3". place_since_ns() is on the clock of now_ns(); 0: set_place was never called.
  void set_place(const char* place, int layer = -1);
  std::string place() const;
  int64_t place_since_ns() const { return place_since_ns_.load(std::memory_order_relaxed); }
  std::vector<OperationRecord> unfinished() const;
  std::vector<OperationRecord> recent(size_t count) const;  // newest last
  static int64_t now_ns();                                  // steady clock

 private:
  using SequenceKey = std::tuple<int, int, int>;  // group, direction, peer
  size_t capacity_;
  mutable std::mutex mutex_;
  std::map<int64_t, OperationRecord> records_;  // by ticket; the last `capacity`, and whatever is unfinished
  std::map<SequenceKey, int64_t> next_sequence_;
  int64_t next_ticket_ = 0;
  std::atomic<int64_t> step_{0}, place_since_ns_{0};
  std::atomic<const char*> place_{nullptr};
  std::atomic<int> layer_{-1};
};

}  // namespace trainctl
