// lib/comm/lane.h -- one direction between this rank and one peer for one operation: a header, then payload in pieces.
//
// The header tells what the sender is doing, so that ranks that disagree get an error instead of mixed bytes. A small
// payload travels with it in one message. A receiver posts room for both, so no header is ever longer than its receive.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "comm/collectives.h"
#include "comm/transport.h"

namespace trainctl {

// On the wire. Everything but lane_bytes is equal for all lanes of one operation.
struct WireHeader {
  uint32_t magic = 0x7472636d;
  Operation operation = Operation::barrier;
  Reduce reduce = Reduce::sum;
  DType dtype = DType::u8;
  uint8_t unused = 0;
  int32_t root = -1;
  int32_t group = 0;
  int64_t sequence = 0;
  int64_t total_bytes = 0;  // of the whole buffer; all_to_all: 0
  int64_t chunk_bytes = 0;
  int64_t lane_bytes = 0;
};

// What all lanes of one operation share.
struct LaneContext {
  Transport& transport;
  const GroupInfo& group;
  int tag = 0;
  int64_t piece_bytes = 0;
  WireHeader header;                           // lane_bytes is filled in per lane
  std::function<void(int64_t bytes)> on_send;  // for every counted message handed to the transport
};

class Lane {
 public:
  enum class Direction : uint8_t { send, receive };
  struct Options {
    int peer = 0;  // index in the group
    Direction direction = Direction::send;
    void* data = nullptr;
    int64_t bytes = 0;
    bool with_header = true;
    bool same_place = false;  // receive: every piece to `data`, one at a time, as release() allows
  };
  explicit Lane(const Options& options);

  // Does what can be done now; true when something moved. Throws Error{comm}: a transport failure or a mismatch.
  bool step(LaneContext& context);
  bool finished() const { return header_done_ && arrived_ == o_.bytes && in_flight_.empty(); }
  bool sends() const { return o_.direction == Direction::send; }
  int peer() const { return o_.peer; }
  int64_t arrived() const { return arrived_; }  // payload bytes that came (or went)
  bool header_done() const { return header_done_; }
  void release(int64_t bytes) { released_ += bytes; }  // same_place lanes: the next piece may come
  void cancel();

 private:
  struct Piece {
    TransferPtr transfer;
    int64_t bytes = 0;
  };
  bool step_send(LaneContext& c);
  bool step_receive(LaneContext& c);
  bool take_header(LaneContext& c);
  bool retire();
  bool inline_payload(const LaneContext& c) const;
  void check_header(const LaneContext& c, const WireHeader& theirs) const;

  Options o_;
  bool header_posted_ = false, header_done_ = false;
  int64_t posted_ = 0, arrived_ = 0, released_ = 0;
  TransferPtr header_transfer_;
  std::vector<std::byte> staging_;  // header, and the payload when it is small
  std::deque<Piece> in_flight_;
};

}  // namespace trainctl
