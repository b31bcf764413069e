// lib/comm/operation_event.h -- the event of one operation: finished by the communication thread, waited on by others.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>

#include "base/error.h"
#include "device/device.h"

namespace trainctl {

class OperationEvent final : public EventState {
 public:
  bool done() const override { return state_.load(std::memory_order_acquire) != State::running; }
  void wait_host() override;  // spins for a moment, then sleeps; throws the failure, again at every call

  void finish();
  void finish_with(const Error& failure);

 private:
  enum class State { running, finished, failed };
  void set(State state);

  std::atomic<State> state_{State::running};
  std::mutex mutex_;
  std::condition_variable changed_;
  // The failure by value: each waiter throws an exception of its own.
  ErrorKind kind_ = ErrorKind::comm;
  std::string message_, where_;
};

}  // namespace trainctl
