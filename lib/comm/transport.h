// lib/comm/transport.h -- point-to-point messages between ranks: all that the hand-written collectives need from below.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace trainctl {

// A message on its way. Destroying an unfinished one cancels it.
class Transfer {
 public:
  virtual ~Transfer() = default;
  virtual bool test() = 0;               // true once the buffer is free (send) or filled (receive); throws Error{comm}
  virtual int64_t received() const = 0;  // receives, after test() was true: bytes that came
  virtual void cancel() = 0;             // afterwards the transport no longer touches the buffer of a receive
};
using TransferPtr = std::unique_ptr<Transfer>;

// Used from one thread alone, the communication thread; open() is its first call and close() its last. Messages of one
// (source, destination, tag) arrive in the order in which they were sent. A message may be shorter than the receive
// that takes it; a longer one is Error{comm}. Sizes are 64-bit; one message is at most max_message_bytes().
class Transport {
 public:
  virtual ~Transport() = default;
  virtual void open() = 0;   // throws Error{environment} or Error{comm}
  virtual void close() = 0;  // every rank calls it; no message may be on its way
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int64_t max_message_bytes() const = 0;
  virtual int max_tag() const = 0;
  virtual TransferPtr isend(int peer, int tag, const void* data, int64_t bytes) = 0;
  virtual TransferPtr irecv(int peer, int tag, void* data, int64_t capacity_bytes) = 0;
  // True: a cancelled message no longer touches its buffer. False: it may, during any later call; so after a failure no
  // call may follow, and what was on its way must keep its buffers.
  virtual bool can_cancel() const = 0;
  // True: `wake` (set before open()) is called, from any thread, whenever a transfer of this rank may have finished, so
  // that the communication thread can sleep meanwhile. False: it has to poll.
  virtual bool set_wake(std::function<void()> wake) = 0;
};

}  // namespace trainctl
