// lib/comm/operation_event.cpp -- a short spin, then a condition variable: there may be more ranks than cores.
#include "comm/operation_event.h"

namespace trainctl {

void OperationEvent::wait_host() {
  constexpr int kSpins = 200;
  for (int i = 0; i < kSpins && !done(); ++i) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  if (!done()) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done(); });
  }
  if (state_.load(std::memory_order_acquire) == State::failed) throw Error(kind_, message_).at(where_);
}

void OperationEvent::finish() { set(State::finished); }

void OperationEvent::finish_with(const Error& failure) {
  kind_ = failure.kind();
  message_ = failure.what();
  where_ = failure.where();
  set(State::failed);
}

void OperationEvent::set(State state) {
  {
    const std::lock_guard lock(mutex_);
    state_.store(state, std::memory_order_release);
  }
  changed_.notify_all();
}

}  // namespace trainctl
