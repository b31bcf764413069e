// tests/support/thread_ranks.h -- runs a function on n ranks that are threads of this process.
#pragma once

#include <fmt/format.h>

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "comm/backends.h"

namespace trainctl::testing {

// Catch2's assertions belong to the main thread; ranks use this one. The first failure reaches the test as an
// exception.
inline void require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

// Calls body(collectives) on `n` threads. The first exception aborts the other ranks and is rethrown here, with its
// rank in the message.
inline void run_thread_ranks(int n, const CollectivesOptions& options,
                             const std::function<void(std::unique_ptr<Collectives>)>& body) {
  const std::shared_ptr<ThreadsHub> hub = make_threads_hub(n);
  std::mutex mutex;
  std::string first;
  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r)
    threads.emplace_back([&, r] {
      const auto failed = [&](const std::string& what) {
        {
          const std::lock_guard lock(mutex);
          if (first.empty()) first = fmt::format("rank {}: {}", r, what);
        }
        hub->abort(fmt::format("rank {} failed: {}", r, what));
      };
      try {
        body(hub->collectives_for(r, options));
      } catch (const std::exception& e) {
        failed(e.what());
      }
    });
  for (std::thread& t : threads) t.join();
  if (!first.empty()) throw std::runtime_error(first);
}

}  // namespace trainctl::testing
