// lib/comm/collectives.h -- what a communication backend implements. Backends: the hand-written collectives over a
// transport (threads, mpi), and counting (the dry run: moves nothing). Callers use ProcessGroup instead.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.h"
#include "tensor/tensor.h"

namespace trainctl {

enum class Reduce : uint8_t { sum, max };
enum class Operation : uint8_t { all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, send, recv, barrier };
std::string_view name(Operation operation);
std::string_view name(Reduce reduce);

// A process group as a backend sees it: global ranks, in group order, and an id that is equal on all of them.
struct GroupInfo {
  int id = 0;
  std::string axis;  // "tensor", "data", ...: for messages and accounting
  std::vector<int> ranks;
  int index = 0;  // this rank's place in `ranks`
};

// One collective or message. Contiguous buffers. For all_gather and reduce_scatter, dimension 0 of the whole side is
// cut by even_split(rows, group size); row_bytes is the size of one row. peer: index in the group (send, recv,
// broadcast root).
struct Request {
  Operation operation = Operation::barrier;
  Reduce reduce = Reduce::sum;
  DType dtype = DType::u8;
  const void* in = nullptr;  // all_reduce, broadcast, send, recv: `out` alone or `in` alone, as the operation needs
  void* out = nullptr;
  int64_t rows = 0, row_elements = 0;
  std::vector<int64_t> send_counts, recv_counts;  // all_to_all: elements per peer
  int peer = -1;
  void* scratch = nullptr;          // scratch_bytes() of it, valid until the event
  std::function<void()> completed;  // optional; called once on success, from any thread, before the event is done
};

// What a request costs this rank: messages sent and payload bytes sent.
struct Cost {
  int64_t messages = 0, bytes = 0;
  Cost& operator+=(const Cost& o) {
    messages += o.messages;
    bytes += o.bytes;
    return *this;
  }
  bool operator==(const Cost&) const = default;
};

class Collectives {
 public:
  virtual ~Collectives() = default;
  virtual int rank() const = 0;  // in the world
  virtual int size() const = 0;
  // Scratch this request needs on this rank; a function of shape, dtype and group alone.
  virtual int64_t scratch_bytes(const GroupInfo& group, const Request& request) const = 0;
  // Enqueues; starts after `ready` (null: at once). Requests of one group run in order; different groups run
  // concurrently; sends and receives of one group run concurrently, matched in order per direction and peer.
  // The event's wait_host() throws Error{comm} on failure.
  virtual Event start(const GroupInfo& group, const Request& request, Event ready) = 0;
  // What was really sent for this group and operation so far (counted at the transport, or by the counting backend).
  virtual Cost sent(const GroupInfo& group, Operation operation) const = 0;
  virtual void finalize() = 0;  // every rank calls it; no pending work may remain
};

// Payload bytes and messages that the hand-written algorithms send from this rank: the formula the dry run uses.
// message_chunk_bytes: the largest message.
Cost predicted_cost(const GroupInfo& group, const Request& request, int64_t message_chunk_bytes);

std::unique_ptr<Collectives> make_counting_collectives(int rank, int size, int64_t message_chunk_bytes);

}  // namespace trainctl
