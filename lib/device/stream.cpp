// lib/device/stream.cpp -- the inline stream: work runs inside enqueue(), so every event is already done.
#include <chrono>

#include "device/inline_stream.h"

namespace trainctl {

void InlineStream::enqueue(const std::function<void()>& work) { work(); }
Event InlineStream::record() { return nullptr; }
void InlineStream::wait(const Event& event) {
  if (!event) return;
  const auto start = std::chrono::steady_clock::now();
  event->wait_host();
  waited_s_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}
void InlineStream::synchronize() {}

}  // namespace trainctl
