// lib/comm/lane.cpp -- headers, pieces and a bounded number of messages on their way.
#include "comm/lane.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace trainctl {
namespace {

constexpr int64_t kHeaderBytes = sizeof(WireHeader);
constexpr int64_t kInlineBytes = 2048;  // copying this much costs less than a second message
constexpr size_t kWindow = 8;           // messages on their way per lane
static_assert(sizeof(WireHeader) == 48 && std::is_trivially_copyable_v<WireHeader>);

std::string describe(const WireHeader& h) {
  std::string text = fmt::format("operation #{} {}", h.sequence, name(h.operation));
  if (h.operation == Operation::all_reduce || h.operation == Operation::reduce_scatter)
    text += fmt::format(" {}", name(h.reduce));
  if (h.operation == Operation::broadcast) text += fmt::format(" from rank {} of the group", h.root);
  text += fmt::format(" of {}", name(h.dtype));
  if (h.operation != Operation::all_to_all) text += fmt::format(", {} bytes in all", h.total_bytes);
  return text + fmt::format(", {} bytes between these two ranks", h.lane_bytes);
}

}  // namespace

Lane::Lane(const Options& options) : o_(options), header_done_(!options.with_header) {}

bool Lane::inline_payload(const LaneContext& c) const { return o_.bytes <= std::min(kInlineBytes, c.piece_bytes); }

bool Lane::step(LaneContext& context) { return sends() ? step_send(context) : step_receive(context); }

bool Lane::step_send(LaneContext& c) {
  const int peer_rank = c.group.ranks[static_cast<size_t>(o_.peer)];
  bool moved = false;
  if (o_.with_header && !header_posted_) {
    WireHeader header = c.header;
    header.lane_bytes = o_.bytes;
    const bool whole = inline_payload(c);
    staging_.resize(static_cast<size_t>(kHeaderBytes + (whole ? o_.bytes : 0)));
    std::memcpy(staging_.data(), &header, sizeof header);
    if (whole && o_.bytes > 0) std::memcpy(staging_.data() + kHeaderBytes, o_.data, static_cast<size_t>(o_.bytes));
    header_transfer_ = c.transport.isend(peer_rank, c.tag, staging_.data(), static_cast<int64_t>(staging_.size()));
    header_posted_ = moved = true;
    if (whole) posted_ = arrived_ = o_.bytes;
    if (whole && (o_.bytes > 0 || header.operation == Operation::barrier)) c.on_send(o_.bytes);
  }
  while (posted_ < o_.bytes && in_flight_.size() < kWindow) {
    const int64_t bytes = std::min(c.piece_bytes, o_.bytes - posted_);
    in_flight_.push_back(
        {c.transport.isend(peer_rank, c.tag, static_cast<const char*>(o_.data) + posted_, bytes), bytes});
    c.on_send(bytes);
    posted_ += bytes;
    moved = true;
  }
  if (header_transfer_ && header_transfer_->test()) {
    header_transfer_.reset();
    header_done_ = moved = true;
  }
  return retire() || moved;
}

bool Lane::step_receive(LaneContext& c) {
  const int peer_rank = c.group.ranks[static_cast<size_t>(o_.peer)];
  bool moved = false;
  if (o_.with_header && !header_posted_) {
    staging_.resize(static_cast<size_t>(kHeaderBytes + kInlineBytes));
    header_transfer_ = c.transport.irecv(peer_rank, c.tag, staging_.data(), static_cast<int64_t>(staging_.size()));
    header_posted_ = moved = true;
  }
  if (!header_done_ && !take_header(c)) return moved;
  const int64_t may_post = o_.same_place ? std::min(o_.bytes, released_) : o_.bytes;
  while (posted_ < may_post && in_flight_.size() < kWindow) {
    const int64_t bytes = std::min(c.piece_bytes, o_.bytes - posted_);
    char* to = static_cast<char*>(o_.data) + (o_.same_place ? 0 : posted_);
    in_flight_.push_back({c.transport.irecv(peer_rank, c.tag, to, bytes), bytes});
    posted_ += bytes;
    moved = true;
  }
  return retire() || moved;
}

// True once the header is here, checked, and its small payload (if any) copied to where it belongs.
bool Lane::take_header(LaneContext& c) {
  if (!header_transfer_->test()) return false;
  const int64_t received = header_transfer_->received();
  header_transfer_.reset();
  WireHeader theirs;
  if (received < kHeaderBytes)
    fail(ErrorKind::comm,
         fmt::format("rank {} sent {} bytes where a header of {} was due; the messages of the {} group "
                     "are out of step",
                     c.group.ranks[static_cast<size_t>(o_.peer)], received, kHeaderBytes, c.group.axis));
  std::memcpy(&theirs, staging_.data(), sizeof theirs);
  check_header(c, theirs);
  if (inline_payload(c)) {
    ensure(received == kHeaderBytes + o_.bytes, "a header came without the small payload it announces");
    if (o_.bytes > 0) std::memcpy(o_.data, staging_.data() + kHeaderBytes, static_cast<size_t>(o_.bytes));
    posted_ = arrived_ = o_.bytes;
  }
  header_done_ = true;
  return true;
}

bool Lane::retire() {
  bool moved = false;
  while (!in_flight_.empty() && in_flight_.front().transfer->test()) {
    const Piece& piece = in_flight_.front();
    if (!sends() && piece.transfer->received() != piece.bytes)
      fail(ErrorKind::comm,
           fmt::format("a message of {} bytes came where {} were due", piece.transfer->received(), piece.bytes));
    arrived_ += piece.bytes;
    in_flight_.pop_front();
    moved = true;
  }
  return moved;
}

void Lane::check_header(const LaneContext& c, const WireHeader& theirs) const {
  WireHeader mine = c.header;
  mine.lane_bytes = o_.bytes;
  WireHeader expected = mine;
  if (expected.operation == Operation::recv) expected.operation = Operation::send;
  if (std::memcmp(&expected, &theirs, sizeof theirs) == 0) return;
  const int me = c.group.ranks[static_cast<size_t>(c.group.index)];
  const int peer = c.group.ranks[static_cast<size_t>(o_.peer)];
  if (theirs.magic != expected.magic)
    fail(ErrorKind::comm, fmt::format("rank {} and rank {} are out of step in the {} group (ranks {}): what came is no "
                                      "message of trainctl, at {} of rank {}",
                                      me, peer, c.group.axis, fmt::join(c.group.ranks, ","), describe(mine), me));
  if (theirs.chunk_bytes != expected.chunk_bytes)
    fail(ErrorKind::comm, fmt::format("message_chunk_bytes differs: {} on rank {}, {} on rank {}", mine.chunk_bytes, me,
                                      theirs.chunk_bytes, peer));
  fail(ErrorKind::comm,
       fmt::format("ranks of the {} group (ranks {}) disagree: rank {} issued {}; rank {} issued {}", c.group.axis,
                   fmt::join(c.group.ranks, ","), me, describe(mine), peer, describe(theirs)));
}

void Lane::cancel() {
  if (header_transfer_) header_transfer_->cancel();
  for (Piece& piece : in_flight_) piece.transfer->cancel();
}

}  // namespace trainctl
