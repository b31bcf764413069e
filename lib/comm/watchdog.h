// lib/comm/watchdog.h -- notices that a rank makes no progress, and says what it was doing.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/recorder.h"

namespace trainctl {

struct HangReport {
  int64_t step = 0;
  std::string place;                         // of the compute thread
  double in_place_s = 0;                     // since it came there
  std::optional<OperationRecord> operation;  // the oldest unfinished one; none: the compute thread itself is stuck
  double waited_s = 0;                       // since the operation was issued, or in_place_s
  double limit_s = 0;
  std::string during;                   // the long piece of work an Extension named; usually empty
  std::vector<OperationRecord> recent;  // newest last
  // "all_reduce #12 in the data group (ranks 0,2) has not finished for 30.1 s (limit 30 s); step 4, attention, layer 3"
  std::string text() const;
};

// Calls `on_hang` once, on its own thread, when the oldest unfinished operation is older than limit_s, or, with none
// unfinished, when the compute thread has stayed at one place for limit_s (once it has been at any). limit_s <= 0:
// never.
class Watchdog {
 public:
  Watchdog(const Recorder& recorder, double limit_s, std::function<void(const HangReport&)> on_hang);
  ~Watchdog();  // waits for a callback that is running
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // While it lives, this limit holds instead; ages before it began do not count, nor does its own time afterwards. For
  // host work that may last, such as saving. limit_s <= 0: not watched at all. Extensions end in reverse order.
  class Extension {
   public:
    Extension(Watchdog& watchdog, double limit_s, std::string during);
    ~Extension();
    Extension(const Extension&) = delete;
    Extension& operator=(const Extension&) = delete;

   private:
    Watchdog& watchdog_;
  };

 private:
  struct Limit {
    double limit_s = 0;
    std::string during;
  };
  void run();
  std::optional<HangReport> look(const Limit& limit, int64_t not_before_ns) const;

  const Recorder& recorder_;
  std::function<void(const HangReport&)> on_hang_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::vector<Limit> limits_;  // the last one holds
  int64_t not_before_ns_ = 0;  // ages count from here at the earliest
  std::thread thread_;
};

}  // namespace trainctl
