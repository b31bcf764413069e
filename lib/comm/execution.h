// lib/comm/execution.h -- one request as a state machine over lanes, stepped by the communication thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "comm/lane.h"
#include "comm/operation_event.h"

namespace trainctl {

// Algorithms: direct exchange in a fixed order.
//   reduce_scatter: every rank receives its part from all peers piece by piece and sums in rank order.
//   all_reduce: reduce_scatter over even_split of the elements, then the parts are gathered; small ones: every rank
//   sends all to all and sums. Equal bits on every rank, whatever the backend, the chunk limit and the algorithm.
class Execution {
 public:
  Execution(GroupInfo group, Request request, Event ready);
  void set_sequence(int64_t sequence) { sequence_ = sequence; }  // among the operations that run in order with it

  const std::shared_ptr<OperationEvent>& event() const { return event_; }
  const Request& request() const { return request_; }
  const GroupInfo& group() const { return group_; }

  // Before the first step: true when the `ready` event is done. Throws what the work before it threw.
  bool ready();
  void open(Transport& transport, int64_t message_chunk_bytes, std::function<void(int64_t)> on_send);
  bool opened() const { return context_ != nullptr; }
  bool step();  // true when something moved; throws Error{comm}
  bool finished() const { return finished_; }
  void finish();
  void finish_with(Error failure);  // adds where it happened; takes back what is on its way

 private:
  enum class Phase : uint8_t { exchange, gather_parts };
  void send_to(int64_t peer, const void* data, int64_t bytes, bool with_header = true);
  void receive_from(int64_t peer, void* data, int64_t bytes, bool with_header = true, bool same_place = false);
  template <class F>
  void for_each_peer(F&& f) const;
  void plan();
  void plan_all_to_all();
  void plan_reduction(const char* whole, int64_t part_begin);
  void plan_gather(char* whole, bool with_header);
  bool reduce_arrived_piece();
  void reduce(const void* own, void* out, int64_t stride, int64_t bytes) const;
  int64_t size() const { return static_cast<int64_t>(group_.ranks.size()); }

  GroupInfo group_;
  Request request_;
  Event ready_;
  int64_t sequence_ = 0;
  std::shared_ptr<OperationEvent> event_ = std::make_shared<OperationEvent>();
  std::unique_ptr<LaneContext> context_;
  std::vector<Lane> lanes_;
  Phase phase_ = Phase::exchange;
  bool reduces_in_pieces_ = false, reduces_at_the_end_ = false, finished_ = false;
  int64_t part_bytes_ = 0, part_begin_ = 0, reduced_ = 0, scratch_stride_ = 0;  // reductions in pieces
};

}  // namespace trainctl
