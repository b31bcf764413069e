// lib/comm/watchdog.cpp -- looks at the recorder a few times per limit.
#include "comm/watchdog.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace trainctl {

std::string HangReport::text() const {
  std::string what = operation ? fmt::format("{} for {:.1f} s", describe(*operation), waited_s)
                               : fmt::format("the compute thread has not moved for {:.1f} s", waited_s);
  what += fmt::format(" (limit {:g} s); step {}, {}", limit_s, step, place);
  if (operation && in_place_s > 0) what += fmt::format(", there for {:.1f} s", in_place_s);
  if (!during.empty()) what += fmt::format(", during {}", during);
  return what;
}

Watchdog::Watchdog(const Recorder& recorder, double limit_s, std::function<void(const HangReport&)> on_hang)
    : recorder_(recorder), on_hang_(std::move(on_hang)), limits_{{limit_s, ""}} {
  thread_ = std::thread([this] { run(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

Watchdog::Extension::Extension(Watchdog& watchdog, double limit_s, std::string during) : watchdog_(watchdog) {
  {
    const std::lock_guard lock(watchdog_.mutex_);
    watchdog_.limits_.push_back({limit_s, std::move(during)});
    watchdog_.not_before_ns_ = Recorder::now_ns();
  }
  watchdog_.changed_.notify_one();
}

Watchdog::Extension::~Extension() {
  {
    const std::lock_guard lock(watchdog_.mutex_);
    watchdog_.limits_.pop_back();
    watchdog_.not_before_ns_ = Recorder::now_ns();
  }
  watchdog_.changed_.notify_one();
}

void Watchdog::run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const Limit limit = limits_.back();
    if (limit.limit_s <= 0) {
      changed_.wait(lock);
      continue;
    }
    if (std::optional<HangReport> report = look(limit, not_before_ns_)) {
      lock.unlock();
      on_hang_(*report);
      return;
    }
    changed_.wait_for(lock, std::chrono::duration<double>(std::clamp(limit.limit_s / 20, 0.002, 1.0)));
  }
}

std::optional<HangReport> Watchdog::look(const Limit& limit, int64_t not_before_ns) const {
  const int64_t now = Recorder::now_ns();
  const auto age_s = [&](int64_t since_ns) {
    return static_cast<double>(now - std::max(since_ns, not_before_ns)) * 1e-9;
  };
  HangReport report;
  report.limit_s = limit.limit_s;
  report.during = limit.during;
  const int64_t place_since = recorder_.place_since_ns();
  if (place_since > 0) report.in_place_s = age_s(place_since);
  const std::vector<OperationRecord> unfinished = recorder_.unfinished();
  if (!unfinished.empty()) {
    report.waited_s = age_s(unfinished.front().start_ns);
    if (report.waited_s > limit.limit_s) report.operation = unfinished.front();
  }
  if (!report.operation) {
    // A thread that waits in an operation has stayed at its place for longer still. Which rank is late is known only
    // from the operation, so an unfinished one gets its whole limit before the place counts.
    if (report.in_place_s <= limit.limit_s || !unfinished.empty()) return std::nullopt;
    report.waited_s = report.in_place_s;
  }
  report.step = recorder_.step();
  report.place = recorder_.place();
  report.recent = recorder_.recent(16);
  return report;
}

}  // namespace trainctl
