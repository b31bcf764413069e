// lib/launch/silence_watch.h -- notices what the ranks' own watchdogs cannot: a rank that never gets as far as having
// one, and a process that is stopped while nobody waits for it.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "launch/first_cause.h"
#include "launch/process_tree.h"
#include "recipe/job.h"

namespace trainctl {

class SilenceWatch {
 public:
  explicit SilenceWatch(const Job& job) : job_(job) {}

  // Every rank has its watchdog (rank 0 says so in events.jsonl, after the first operation of all ranks together).
  void ranks_are_ready() { ready_ = true; }
  bool ready() const { return ready_; }

  // The job's end, when it is due; times in seconds since the launch:
  // - not ready after runtime.startup_limit_s: names the ranks that have not come so far;
  // - a process of this host stopped (SIGSTOP, a debugger) for runtime.watchdog_s and a little more, in which a rank
  //   that waits for it would have reported: names it.
  // `processes` is asked at most once a second.
  std::optional<FirstCause> overdue(double now_s, const std::function<std::vector<ProcessInfo>()>& processes);

 private:
  FirstCause start_up_cause(double now_s, const std::vector<ProcessInfo>& processes) const;

  const Job& job_;
  bool ready_ = false;
  double looked_at_s_ = 0;
  std::map<pid_t, double> stopped_since_;
};

}  // namespace trainctl
