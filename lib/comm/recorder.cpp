// lib/comm/recorder.cpp -- a ring of operations, and where the compute thread is.
#include "comm/recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "comm/exchange_plan.h"

namespace trainctl {

int64_t Recorder::now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

int64_t Recorder::begin(const GroupInfo& group, const Request& request) {
  OperationRecord record;
  record.group = group.id;
  record.axis = group.axis;
  record.ranks = group.ranks;
  record.operation = request.operation;
  record.bytes = bytes_of(request);
  record.peer = request.peer;
  record.start_ns = now_ns();
  const bool message = request.operation == Operation::send || request.operation == Operation::recv;
  const SequenceKey key{group.id, message ? static_cast<int>(request.operation) : -1, message ? request.peer : -1};
  const std::lock_guard lock(mutex_);
  record.sequence = next_sequence_[key]++;
  const int64_t ticket = next_ticket_++;
  records_.emplace(ticket, std::move(record));
  // The oldest finished one goes; unfinished ones stay however old they are.
  if (records_.size() > capacity_) {
    const auto oldest = std::find_if(records_.begin(), records_.end(), [](const auto& r) { return r.second.end_ns; });
    if (oldest != records_.end()) records_.erase(oldest);
  }
  return ticket;
}

void Recorder::end(int64_t ticket) {
  const int64_t now = now_ns();
  const std::lock_guard lock(mutex_);
  const auto found = records_.find(ticket);
  if (found != records_.end()) found->second.end_ns = now;
}

void Recorder::set_place(const char* place, int layer) {
  place_.store(place, std::memory_order_relaxed);
  layer_.store(layer, std::memory_order_relaxed);
  place_since_ns_.store(now_ns(), std::memory_order_relaxed);
}

std::string Recorder::place() const {
  const char* place = place_.load(std::memory_order_relaxed);
  const int layer = layer_.load(std::memory_order_relaxed);
  if (!place) return "start";
  return layer < 0 ? std::string(place) : fmt::format("{}, layer {}", place, layer);
}

std::vector<OperationRecord> Recorder::unfinished() const {
  const std::lock_guard lock(mutex_);
  std::vector<OperationRecord> result;
  for (const auto& [ticket, record] : records_)
    if (record.end_ns == 0) result.push_back(record);
  return result;
}

std::vector<OperationRecord> Recorder::recent(size_t count) const {
  const std::lock_guard lock(mutex_);
  std::vector<OperationRecord> result;
  auto from = records_.begin();
  if (records_.size() > count) std::advance(from, records_.size() - count);
  for (; from != records_.end(); ++from) result.push_back(from->second);
  return result;
}

std::string describe(const OperationRecord& record) {
  const bool message = record.operation == Operation::send || record.operation == Operation::recv;
  std::string text = std::string(name(record.operation));
  if (message) {
    const size_t peer = static_cast<size_t>(record.peer);
    text += fmt::format(" {} rank {}", record.operation == Operation::send ? "to" : "from",
                        record.peer >= 0 && peer < record.ranks.size() ? record.ranks[peer] : -1);
  }
  text += fmt::format(" #{} in the {} group (ranks {}), {} bytes", record.sequence, record.axis,
                      fmt::join(record.ranks, ","), record.bytes);
  if (record.end_ns != 0) return text + fmt::format(", took {:.3f} ms", double(record.end_ns - record.start_ns) * 1e-6);
  return text + ", not finished";
}

}  // namespace trainctl
