// lib/comm/execution.cpp -- which lanes an operation opens, and what happens when they have delivered.
#include "comm/execution.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "comm/exchange_plan.h"
#include "comm/rank_order_reduce.h"

namespace trainctl {

Execution::Execution(GroupInfo group, Request request, Event ready)
    : group_(std::move(group)), request_(std::move(request)), ready_(std::move(ready)) {}

bool Execution::ready() {
  if (!ready_) return true;
  if (!ready_->done()) return false;
  ready_->wait_host();
  ready_.reset();
  return true;
}

void Execution::open(Transport& transport, int64_t message_chunk_bytes, std::function<void(int64_t)> on_send) {
  const Operation op = request_.operation;
  const bool message = op == Operation::send || op == Operation::recv;
  WireHeader header;
  header.operation = op;
  if (op == Operation::all_reduce || op == Operation::reduce_scatter) header.reduce = request_.reduce;
  header.dtype = request_.dtype;
  header.root = op == Operation::broadcast ? request_.peer : -1;
  header.group = group_.id;
  header.sequence = sequence_;
  header.total_bytes = op == Operation::all_to_all ? 0 : bytes_of(request_);
  header.chunk_bytes = message_chunk_bytes;
  context_ = std::make_unique<LaneContext>(LaneContext{.transport = transport,
                                                       .group = group_,
                                                       .tag = group_.id * 2 + (message ? 1 : 0),
                                                       .piece_bytes = piece_bytes(request_, message_chunk_bytes),
                                                       .header = header,
                                                       .on_send = std::move(on_send)});
  plan();
  // Every peer hears what this rank does before any of them can be found to disagree.
  for (Lane& lane : lanes_)
    if (lane.sends()) lane.step(*context_);
}

void Execution::send_to(int64_t peer, const void* data, int64_t bytes, bool with_header) {
  lanes_.emplace_back(Lane::Options{.peer = static_cast<int>(peer),
                                    .direction = Lane::Direction::send,
                                    .data = const_cast<void*>(data),  // a send lane only reads
                                    .bytes = bytes,
                                    .with_header = with_header});
}

void Execution::receive_from(int64_t peer, void* data, int64_t bytes, bool with_header, bool same_place) {
  lanes_.emplace_back(Lane::Options{.peer = static_cast<int>(peer),
                                    .direction = Lane::Direction::receive,
                                    .data = data,
                                    .bytes = bytes,
                                    .with_header = with_header,
                                    .same_place = same_place});
}

// Starts behind the own index, so that not every rank sends to rank 0 first.
template <class F>
void Execution::for_each_peer(F&& f) const {
  for (int64_t k = 1; k < size(); ++k) f((group_.index + k) % size());
}

void Execution::plan() {
  char* out = static_cast<char*>(request_.out);
  const char* in = static_cast<const char*>(request_.in);
  const int64_t bytes = bytes_of(request_);
  switch (request_.operation) {
    case Operation::all_reduce:
      if (size() == 1) break;
      if (all_reduce_in_one_round(request_, size())) {
        reduces_at_the_end_ = true;
        char* scratch = static_cast<char*>(request_.scratch);
        for_each_peer([&](int64_t p) {
          send_to(p, out, bytes);
          receive_from(p, scratch + (p - (p > group_.index)) * bytes, bytes);
        });
      } else {
        plan_reduction(out, part_of(request_, size(), group_.index).begin);
      }
      break;
    case Operation::reduce_scatter:
      plan_reduction(in, 0);
      break;
    case Operation::all_gather: {
      const Span64 own = part_of(request_, size(), group_.index);
      if (own.size() > 0 && out + own.begin != in) std::memcpy(out + own.begin, in, static_cast<size_t>(own.size()));
      plan_gather(out, true);
      break;
    }
    case Operation::all_to_all:
      plan_all_to_all();
      break;
    case Operation::broadcast:
      if (request_.peer == group_.index)
        for_each_peer([&](int64_t p) { send_to(p, out, bytes); });
      else
        receive_from(request_.peer, out, bytes);
      break;
    case Operation::send:
      send_to(request_.peer, in, bytes);
      break;
    case Operation::recv:
      receive_from(request_.peer, out, bytes);
      break;
    case Operation::barrier:
      for_each_peer([&](int64_t p) {
        send_to(p, nullptr, 0);
        receive_from(p, nullptr, 0);
      });
      break;
  }
}

void Execution::plan_all_to_all() {
  const int64_t element = size_of(request_.dtype);
  std::vector<Span64> from(request_.send_counts.size()), to(from.size());
  Span64 sent, received;
  for (size_t p = 0; p < from.size(); ++p) {
    from[p] = sent = {sent.end, sent.end + request_.send_counts[p] * element};
    to[p] = received = {received.end, received.end + request_.recv_counts[p] * element};
  }
  const char* in = static_cast<const char*>(request_.in);
  char* out = static_cast<char*>(request_.out);
  const auto me = static_cast<size_t>(group_.index);
  if (from[me].size() > 0) std::memcpy(out + to[me].begin, in + from[me].begin, static_cast<size_t>(from[me].size()));
  for_each_peer([&](int64_t p) {
    const auto i = static_cast<size_t>(p);
    send_to(p, in + from[i].begin, from[i].size());
    receive_from(p, out + to[i].begin, to[i].size());
  });
}

// Sends every peer its part; receives the own part from all of them, one piece each at a time, into scratch.
void Execution::plan_reduction(const char* whole, int64_t out_begin) {
  reduces_in_pieces_ = true;
  const Span64 own = part_of(request_, size(), group_.index);
  part_begin_ = own.begin;
  part_bytes_ = own.size();
  scratch_stride_ = std::min(part_bytes_, context_->piece_bytes);
  char* scratch = static_cast<char*>(request_.scratch);
  for_each_peer([&](int64_t p) {
    const Span64 theirs = part_of(request_, size(), p);
    send_to(p, whole + theirs.begin, theirs.size());
    receive_from(p, scratch + (p - (p > group_.index)) * scratch_stride_, part_bytes_, true, true);
    lanes_.back().release(scratch_stride_);
  });
  request_.in = whole;
  request_.out = static_cast<char*>(request_.out) + out_begin;
  if (size() == 1 && part_bytes_ > 0 && request_.out != whole)
    std::memcpy(request_.out, whole, static_cast<size_t>(part_bytes_));
}

void Execution::plan_gather(char* whole, bool with_header) {
  const Span64 own = part_of(request_, size(), group_.index);
  for_each_peer([&](int64_t p) {
    const Span64 theirs = part_of(request_, size(), p);
    send_to(p, whole + own.begin, own.size(), with_header);
    receive_from(p, whole + theirs.begin, theirs.size(), with_header);
  });
}

bool Execution::step() {
  bool moved = false;
  for (Lane& lane : lanes_)
    if (!lane.finished()) moved |= lane.step(*context_);
  if (phase_ == Phase::exchange && reduces_in_pieces_) moved |= reduce_arrived_piece();
  if (!std::all_of(lanes_.begin(), lanes_.end(), [](const Lane& l) { return l.finished(); })) return moved;
  if (reduces_at_the_end_) reduce(request_.out, request_.out, bytes_of(request_), bytes_of(request_));
  if (phase_ == Phase::exchange && request_.operation == Operation::all_reduce && reduces_in_pieces_) {
    // Every send of the first phase has left its buffer, so parts may now be received there.
    phase_ = Phase::gather_parts;
    lanes_.clear();
    plan_gather(static_cast<char*>(request_.out) - part_begin_, false);
    return true;
  }
  finished_ = true;
  return true;
}

// When one more piece has come from every peer: sums it, and lets the next one come.
bool Execution::reduce_arrived_piece() {
  if (size() == 1 || reduced_ == part_bytes_) return false;
  const int64_t bytes = std::min(scratch_stride_, part_bytes_ - reduced_);
  for (const Lane& lane : lanes_)
    if (!lane.sends() && lane.arrived() < reduced_ + bytes) return false;
  reduce(static_cast<const char*>(request_.in) + part_begin_ + reduced_, static_cast<char*>(request_.out) + reduced_,
         scratch_stride_, bytes);
  reduced_ += bytes;
  for (Lane& lane : lanes_)
    if (!lane.sends()) lane.release(scratch_stride_);
  return true;
}

// Own part and the peers' pieces in scratch, `stride` bytes apart, in rank order.
void Execution::reduce(const void* own, void* out, int64_t stride, int64_t bytes) const {
  std::vector<const void*> parts;
  for (int64_t p = 0; p < size(); ++p)
    parts.push_back(p == group_.index ? own
                                      : static_cast<const char*>(request_.scratch) + (p - (p > group_.index)) * stride);
  reduce_in_rank_order(request_.dtype, request_.reduce, parts, out, bytes / size_of(request_.dtype));
}

void Execution::finish() {
  lanes_.clear();
  if (request_.completed) request_.completed();
  event_->finish();
}

void Execution::finish_with(Error failure) {
  if (context_ && context_->transport.can_cancel())
    for (Lane& lane : lanes_) lane.cancel();
  failure.at(fmt::format("{} #{} in the {} group", name(request_.operation), sequence_, group_.axis));
  event_->finish_with(failure);
}

}  // namespace trainctl
