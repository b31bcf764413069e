// lib/launch/silence_watch.cpp -- see the header.
#include "launch/silence_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/atomic_file.h"

namespace trainctl {
namespace {

constexpr double kLookEveryS = 1.0;
constexpr double kReportTimeS = 2.0;  // a waiting rank's report, from its watchdog to the disk
constexpr size_t kNamedRanks = 8;

bool is_stopped(const ProcessInfo& p) { return p.state == 'T' || p.state == 't'; }

// How far a rank has come: 0 no sign since the launch, 1 it has opened its log, 2 its watchdog runs.
int progress_of(const RunPaths& paths, int64_t rank) {
  std::error_code absent;
  const auto launched = std::filesystem::last_write_time(paths.launch(), absent);
  const auto logged = std::filesystem::last_write_time(paths.rank_log(rank), absent);
  if (absent || logged < launched) return 0;
  try {
    // Logs go on from attempt to attempt: only what follows the newest start counts.
    const std::string log = read_file(paths.rank_log(rank));
    const size_t start = log.rfind(kRankStartLine), ready = log.rfind(kRankReadyLine);
    return ready != std::string::npos && (start == std::string::npos || ready > start) ? 2 : 1;
  } catch (const Error&) {
    return 1;
  }
}

std::string names_of(const std::vector<int64_t>& ranks) {
  const auto shown = static_cast<std::ptrdiff_t>(std::min(ranks.size(), kNamedRanks));
  std::string text =
      fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks.begin(), ranks.begin() + shown, ", "));
  if (ranks.size() > kNamedRanks) text += fmt::format(" and {} more", ranks.size() - kNamedRanks);
  return text;
}

}  // namespace

std::optional<FirstCause> SilenceWatch::overdue(double now_s,
                                                const std::function<std::vector<ProcessInfo>()>& processes) {
  if (now_s - looked_at_s_ < kLookEveryS) return std::nullopt;
  looked_at_s_ = now_s;
  const RuntimeConfig& runtime = job_.recipe.runtime;
  const std::vector<ProcessInfo> now = processes();
  if (!ready_ && now_s > runtime.startup_limit_s) return start_up_cause(now_s, now);

  std::map<pid_t, double> still;
  for (const ProcessInfo& p : now) {
    if (!is_stopped(p)) continue;
    const auto known = stopped_since_.find(p.pid);
    const double since = known == stopped_since_.end() ? now_s : known->second;
    still[p.pid] = since;
    if (now_s - since < runtime.watchdog_s + kReportTimeS) continue;
    FirstCause cause;
    cause.kind = ErrorKind::hang;
    const std::string who = p.rank >= 0 ? fmt::format("rank {} (pid {})", p.rank, p.pid)
                                        : fmt::format("process {} of {}", p.pid, job_.launcher);
    cause.message = fmt::format("{} has been stopped (SIGSTOP or a debugger) for {:.0f} s (runtime.watchdog_s {})", who,
                                now_s - since, runtime.watchdog_s);
    cause.details = {
        "what to do: find out who stopped it; run the same command again with the same --run-dir to "
        "continue"};
    return cause;
  }
  stopped_since_ = std::move(still);
  return std::nullopt;
}

FirstCause SilenceWatch::start_up_cause(double now_s, const std::vector<ProcessInfo>& processes) const {
  const RunPaths paths{job_.run_dir};
  std::vector<int64_t> silent, starting, ready, late;
  for (int64_t rank = 0; rank < job_.world_size; ++rank) {
    const int progress = progress_of(paths, rank);
    (progress == 0 ? silent : progress == 1 ? starting : ready).push_back(rank);
  }
  const auto process_of = [&processes](int64_t rank) {
    return std::find_if(processes.begin(), processes.end(), [rank](const ProcessInfo& p) { return p.rank == rank; });
  };
  // All ranks leave MPI's start together: where all of them are silent, a stopped process says which one is to blame.
  for (const ProcessInfo& p : processes)
    if (is_stopped(p) && p.rank >= 0) late.push_back(p.rank);
  std::sort(late.begin(), late.end());
  if (late.empty()) late = !silent.empty() ? silent : !starting.empty() ? starting : ready;

  FirstCause cause;
  cause.kind = ErrorKind::hang;
  cause.message =
      fmt::format("before the first step: {} not ready {:.0f} s after the launch (runtime.startup_limit_s {})",
                  names_of(late), now_s, job_.recipe.runtime.startup_limit_s);
  for (size_t i = 0; i < std::min(late.size(), kNamedRanks); ++i) {
    const int64_t rank = late[i];
    const auto p = process_of(rank);
    std::string line = fmt::format("rank {} on {}", rank, job_.ranks[static_cast<size_t>(rank)].host);
    if (p != processes.end()) line += fmt::format(" (pid {})", p->pid);
    if (p != processes.end() && is_stopped(*p))
      line += ": the process is stopped (SIGSTOP or a debugger)";
    else if (std::binary_search(silent.begin(), silent.end(), rank))
      line += ": no sign of life; it has not got through the start of " + job_.launcher;
    else
      line += ": started, but not ready; see " + paths.rank_log(rank).string();
    cause.details.push_back(std::move(line));
  }
  cause.details.push_back(fmt::format("of {} ranks {} gave no sign, {} had started, {} were ready", job_.world_size,
                                      silent.size(), starting.size(), ready.size()));
  cause.details.push_back(
      "what to do: look at those ranks' hosts; if the start is only slow, raise "
      "runtime.startup_limit_s");
  return cause;
}

}  // namespace trainctl
