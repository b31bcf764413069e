// lib/launch/supervise.cpp -- the launcher's loop while the ranks run.
#include "launch/supervise.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <optional>
#include <thread>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/units.h"
#include "launch/child_process.h"
#include "launch/event_tail.h"
#include "launch/first_cause.h"
#include "launch/launcher_output.h"
#include "launch/metrics_tail.h"
#include "launch/process_tree.h"
#include "launch/progress.h"
#include "launch/silence_watch.h"

namespace trainctl {
namespace {

constexpr int kPollMs = 100;
constexpr double kKillLimitS = 5.0;
constexpr int kStoppedAfterSave = 75;

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// SIGINT, SIGTERM and SIGHUP arrive through a descriptor while this lives.
class SignalGate {
 public:
  SignalGate() {
    sigset_t set;
    ::sigemptyset(&set);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&set, signal);
    ::sigprocmask(SIG_BLOCK, &set, &before_);
    fd_ = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    ensure(fd_ >= 0, "signalfd failed");
  }
  ~SignalGate() {
    ::close(fd_);
    ::sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  SignalGate(const SignalGate&) = delete;
  SignalGate& operator=(const SignalGate&) = delete;
  int fd() const { return fd_; }
  std::optional<int> take() const {
    signalfd_siginfo info{};
    if (::read(fd_, &info, sizeof info) != sizeof info) return std::nullopt;
    return static_cast<int>(info.ssi_signo);
  }

 private:
  int fd_ = -1;
  sigset_t before_{};
};

std::string last_line_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  if (!in) return {};
  const auto size = static_cast<int64_t>(in.tellg());
  in.seekg(std::max<int64_t>(0, size - 4096));
  std::string last;
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) last = line;
  return last;
}

class Supervisor {
 public:
  Supervisor(const Job& job, const Command& command, const SuperviseOptions& options)
      : job_(job),
        options_(options),
        paths_{job.run_dir},
        tail_(paths_.metrics()),
        events_(paths_.events()),
        progress_({.steps = job.recipe.runtime.steps,
                   .live = options.live,
                   .live_columns = options.live_columns,
                   .result = options.result,
                   .diagnostic = options.diagnostic}),
        output_(job.launcher),
        silence_(job),
        log_(paths_.logs() / "launcher.log"),
        child_(command) {
    record("command: " + shell_line(command));
    log_sizes_ = rank_log_sizes();
  }

  JobOutcome run() {
    while (!child_.try_wait(child_status_)) {
      wait_for_news();
      take_signals();
      take_output();
      take_metrics();
      watch_for_failure();
      watch_for_silence();
      enforce_deadlines();
    }
    none_left_ = kill_descendants(kKillLimitS);
    take_output();
    take_metrics();
    remember();
    progress_.finish();
    return {conclude(all_failures()), progress_.steps_made()};
  }

 private:
  void note(std::string_view text) { options_.diagnostic("trainctl: note: " + std::string(text) + "\n"); }

  // The launcher outlives a full disk: what launcher.log does not take is lost, and said once.
  void record(std::string_view text) {
    if (!log_works_) return;
    try {
      log_.line(text);
    } catch (const Error& e) {
      log_works_ = false;
      note(fmt::format("launcher.log ends here: {}", e.what()));
    }
  }

  // errors/, and what ranks that could not write there have printed instead.
  std::vector<RankFailure> all_failures() const {
    std::vector<RankFailure> failures = load_rank_failures(paths_.errors());
    for (const RankFailure& printed : printed_failures_)
      if (std::none_of(failures.begin(), failures.end(),
                       [&printed](const RankFailure& f) { return f.rank == printed.rank; }))
        failures.push_back(printed);
    return failures;
  }

  void wait_for_news() {
    pollfd fds[2] = {{signals_.fd(), POLLIN, 0}, {child_.output_fd(), POLLIN, 0}};
    ::poll(fds, output_open_ ? 2 : 1, kPollMs);
  }

  void take_signals() {
    while (const std::optional<int> signal = signals_.take()) {
      const std::string name = fmt::format("SIG{}", ::sigabbrev_np(*signal));
      record("received " + name);
      if (++signals_seen_ == 1) {
        progress_.finish();
        if (!silence_.ready()) {
          own_cause_ = ended_before_start(name);
          terminate();
        } else {
          ask_to_stop(name);
        }
      } else if (!terminate_at_) {
        progress_.finish();
        note(name + " again: ending all ranks");
        terminate();
      }
    }
  }

  void ask_to_stop(const std::string& signal) {
    try {
      write_file_atomically(paths_.stop_request(), signal + "\n");
      note(signal + ": asked the ranks to save and stop; send it again to end them at once");
    } catch (const Error& e) {
      note(fmt::format("{}: the ranks could not be asked to save and stop ({}); send it again to end them at once",
                       signal, e.what()));
    }
  }

  // Nothing was computed yet, so there is nothing to save.
  FirstCause ended_before_start(const std::string& signal) const {
    return {ErrorKind::rank_failed,
            signal + " before every rank was ready: ended without a step, nothing is lost",
            {"what to do: run the same command again with " + run_dir_option()}};
  }

  void take_output() {
    std::vector<std::string> lines;
    if (output_open_) output_open_ = child_.read_lines(lines);
    for (const std::string& line : lines) {
      const TaggedLine tagged = output_.add(line);
      if (const std::optional<RankFailure> failure = rank_failure_of_line(tagged.text))
        printed_failures_.push_back(*failure);
      record(line);
    }
  }

  void take_metrics() {
    for (const RunEvent& event : events_.poll()) {
      if (event.level == kReadyEvent) {
        silence_.ranks_are_ready();
      } else if (event.level == kStartEvent) {
        done_before_ = event.step;
        seen_ = {event.step, std::min(seen_.saved_step, event.step)};
      } else if (event.level == kSavedEvent) {
        seen_.saved_step = event.step;
      } else {
        progress_.message("trainctl: " + event.level + ": " + event.text);
      }
    }
    for (const MetricsLine& line : tail_.poll()) {
      progress_.show(line, now_s());
      if (!line.eval_loss) seen_.last_step = line.step;
    }
    const RunRecord& told = job_.seen;
    if (seen_.saved_step < told.saved_step || (seen_.saved_step == 0) != (told.saved_step == 0) ||
        (seen_.last_step == 0) != (told.last_step == 0))
      remember();
  }

  // In launch.json; of a run that goes on, only that there is something to tell, and that something was taken back.
  void remember() {
    if (seen_ == job_.seen) return;
    job_.seen = seen_;
    try {
      save_job(job_, paths_.launch());
    } catch (const Error& e) {  // events.jsonl and metrics.jsonl are the first to tell
      record(fmt::format("launch.json does not tell of the newest steps: {}", e.what()));
    }
  }

  // The first report starts a clock: the job should end by itself, or is ended.
  void watch_for_failure() {
    if (failed_at_) return;
    std::error_code ignored;
    const bool none_written = std::filesystem::is_empty(paths_.errors(), ignored) || ignored;
    if (none_written && printed_failures_.empty()) return;
    if (all_failures().empty()) return;  // being written
    failed_at_ = now_s();
    processes_ = descendants();
  }

  void watch_for_silence() {
    if (failed_at_ || terminate_at_) return;
    if (std::optional<FirstCause> cause = silence_.overdue(now_s() - started_at_, descendants)) {
      own_cause_ = std::move(cause);
      terminate();
    }
  }

  void enforce_deadlines() {
    if (failed_at_ && !terminate_at_ && now_s() - *failed_at_ > options_.settle_s) terminate();
    if (terminate_at_ && now_s() - *terminate_at_ > options_.terminate_s) signal_descendants(SIGKILL);
  }

  void terminate() {
    terminate_at_ = now_s();
    signal_descendants(SIGTERM);
  }

  int conclude(const std::vector<RankFailure>& failures) {
    if (!none_left_) note("some processes of the job did not die; look for them with ps");
    if (own_cause_) return report(*own_cause_);
    const int64_t steps = job_.recipe.runtime.steps;
    const int64_t last = std::max(tail_.last_step().value_or(0), done_before_);  // there, or where the run came from
    if (failures.empty() && signals_seen_ >= 2)
      return report({ErrorKind::rank_failed,
                     fmt::format("ended by a second signal after step {}, without waiting for a save", last),
                     {"what to do: " + how_to_continue({.job = &job_, .usable = usable()})}});
    if (failures.empty() && child_status_.exited && child_status_.code == kStoppedAfterSave) {
      options_.result(fmt::format("stopped after step {} of {}, saved; to continue: the same command with {}\n", last,
                                  steps, run_dir_option()));
      return kStoppedAfterSave;
    }
    // Only with an argument of the caller's (--version) does mpirun or srun end well without starting a rank.
    const bool well = child_status_.exited && child_status_.code == 0;
    const bool started = last >= steps || ranks_started() || (well && options_.launcher_arguments.empty());
    if (failures.empty() && well && started) {
      if (last >= steps) return report_done(steps);
      return report(
          {ErrorKind::rank_failed,
           fmt::format("the ranks ended without an error, but after step {} of {}", last, steps),
           {"log: " + paths_.rank_log(0).string(), "what to do: this is a bug of trainctl; keep the run directory"}});
    }
    return report(first_cause({.job = &job_,
                               .failures = failures,
                               .verdict = output_.verdict(),
                               .child = child_status_,
                               .processes = processes_,
                               .last_step = last,
                               .launcher_lines = output_.last_lines(-1),
                               .launcher_arguments = options_.launcher_arguments,
                               .ranks_started = started,
                               .usable = usable(),
                               .numeric_before = options_.numeric_before,
                               .last_words = [this](int64_t rank) { return last_words(rank); }}));
  }

  // Rank logs are appended to, so a rank that began shows as a log that grew.
  std::vector<uintmax_t> rank_log_sizes() const {
    std::vector<uintmax_t> sizes;
    for (int64_t rank = 0; rank < job_.world_size; ++rank) {
      std::error_code absent;
      const uintmax_t size = std::filesystem::file_size(paths_.rank_log(rank), absent);
      sizes.push_back(absent ? 0 : size);
    }
    return sizes;
  }

  bool ranks_started() const {
    for (int64_t rank = 0; rank < job_.world_size; ++rank)
      if (!output_.last_lines(rank).empty()) return true;
    return rank_log_sizes() != log_sizes_;
  }

  std::vector<UsableState> usable() const { return options_.usable ? options_.usable() : std::vector<UsableState>(); }

  int report_done(int64_t steps) {
    if (progress_.steps_made() == 0) {
      options_.result(fmt::format("nothing to do: {} done before; run directory {}\n",
                                  steps == 1 ? "the 1 step was" : fmt::format("all {} steps were", steps),
                                  paths_.root.string()));
      return 0;
    }
    options_.result(fmt::format("done: {}, loss {:.4f}; run directory {}\n", counted(progress_.steps_made(), "step"),
                                progress_.last().loss, paths_.root.string()));
    return 0;
  }

  int report(const FirstCause& cause) {
    std::string text = fmt::format("trainctl: {}: {}\n", name(cause.kind), cause.message);
    for (const std::string& line : cause.details) text += "  " + line + "\n";
    record(text);
    options_.diagnostic(text);
    return exit_code(cause.kind);
  }

  std::string last_words(int64_t rank) const {
    const std::vector<std::string> lines = output_.last_lines(job_.launcher == "threads" ? -1 : rank);
    return lines.empty() ? last_line_of(paths_.rank_log(rank)) : lines.back();
  }

  std::string run_dir_option() const { return "--run-dir " + shell_quote(paths_.root.string()); }

  Job job_;
  const SuperviseOptions& options_;
  RunPaths paths_;
  SignalGate signals_;
  MetricsTail tail_;
  EventTail events_;
  Progress progress_;
  LauncherOutput output_;
  SilenceWatch silence_;
  LineWriter log_;
  bool log_works_ = true;
  ChildProcess child_;
  ExitStatus child_status_;
  std::vector<ProcessInfo> processes_;
  std::vector<RankFailure> printed_failures_;
  std::optional<FirstCause> own_cause_;  // the launcher itself ended the job
  double started_at_ = now_s();
  std::vector<uintmax_t> log_sizes_;  // before the ranks were started
  std::optional<double> failed_at_, terminate_at_;
  int64_t done_before_ = 0;
  RunRecord seen_ = job_.seen;
  int signals_seen_ = 0;
  bool output_open_ = true, none_left_ = true;
};

}  // namespace

JobOutcome supervise(const Job& job, const Command& command, const SuperviseOptions& options) {
  adopt_orphans();
  return Supervisor(job, command, options).run();
}

}  // namespace trainctl
