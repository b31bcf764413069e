// lib/launch/first_cause.cpp -- chooses and words the cause of a failed job.
#include "launch/first_cause.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/units.h"
#include "launch/command.h"

namespace trainctl {

std::string how_to_continue(const Evidence& e) {
  const std::string again = "run the same command again with --run-dir " + shell_quote(e.job->run_dir);
  const std::string& from = e.job->resume;
  if (e.usable.empty() && from != "auto" && from != "never") return again + " to go on from " + from + " again";
  if (e.usable.empty()) return again + "; it starts again from step 1, as there is no usable checkpoint yet";
  return again + " to continue from " + e.usable.front().folder;
}

namespace {

// Lower: closer to the root of the trouble.
int distance_from_root(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::hang:
      return 3;
    case ErrorKind::rank_failed:
      return 2;
    case ErrorKind::comm:
      return 1;
    default:
      return 0;
  }
}

std::string host_of(const Job& job, int64_t rank) {
  return rank >= 0 && rank < job.world_size ? job.ranks[static_cast<size_t>(rank)].host : std::string("?");
}

std::string step_words(int64_t step) { return step > 0 ? fmt::format("step {}", step) : "before the first step"; }

// Message lines of a rank may be many; the first one goes into the headline.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string advice(ErrorKind kind, const Evidence& e) {
  switch (kind) {
    case ErrorKind::environment:
      return "what to do: mend the machine as the message says, then run the same command again with the same "
             "--run-dir";
    case ErrorKind::usage:
    case ErrorKind::config:
    case ErrorKind::plan:
    case ErrorKind::input:
      return "what to do: correct what the message names, then run the same command again";
    case ErrorKind::checkpoint:
      if (!e.job->init_from.folder.empty() && e.usable.empty())
        return "what to do: trainctl checkpoint verify --full shows what is wrong with the weights to start from; "
               "--init-from names others, with another --run-dir";
      return "what to do: trainctl checkpoint list shows what can be resumed; --resume PATH chooses one";
    case ErrorKind::memory:
      return "what to do: use more ranks, a smaller runtime.micro_batch_size, or runtime.recompute \"full\"";
    case ErrorKind::numeric:
      return "what to do: lower optimizer.lr, lengthen optimizer.schedule.warmup_steps, or look at the samples of that "
             "step; then " +
             how_to_continue(e);
    case ErrorKind::hang:
      return "what to do: look at the late rank's log and host; if the work is only slow, raise runtime.watchdog_s";
    case ErrorKind::internal:
      return "what to do: this is a bug of trainctl; keep the run directory";
    default:
      return "what to do: look at the rank's log; then " + how_to_continue(e);
  }
}

// A step that met no number meets none again from the same state, unless something is changed: other ways to go on.
std::vector<std::string> ways_around(const RankFailure& failure, const Evidence& e) {
  std::vector<std::string> ways;
  if (e.numeric_before > 0 && e.numeric_before == failure.step)
    ways.push_back(
        fmt::format("the attempt before this one ended at step {} in the same way: change more, or go back "
                    "further",
                    failure.step));
  // Steps are no measure of samples where some were passed over, or the batch was another.
  const auto batches = [&](const UsableState& from) {
    const std::optional<int64_t> batch = e.job->recipe.runtime.global_batch_size;
    if (failure.next_sample <= from.consumed_samples || from.consumed_samples < 0 || !batch || *batch < 1)
      return failure.step - from.step;
    return (failure.next_sample - from.consumed_samples + *batch - 1) / *batch;
  };
  const auto command = [&](const UsableState& from) {
    return fmt::format("the same command with --run-dir {} --resume {} --skip-batches {}", shell_quote(e.job->run_dir),
                       shell_quote(from.folder), batches(from));
  };
  for (size_t i = 0; i < std::min<size_t>(e.usable.size(), 2); ++i)
    if (e.usable[i].step < failure.step)
      ways.push_back(fmt::format("{}: {}", i == 0 ? "to pass over the samples up to that step" : "to go back further",
                                 command(e.usable[i])));
  return ways;
}

std::string advice_for_signal(int signal, const Evidence& e) {
  switch (signal) {
    case SIGKILL:
      return "what to do: nobody but the kernel or an operator sends SIGKILL; look for the out-of-memory killer "
             "(dmesg), "
             "and compare trainctl plan with the memory of the host";
    case SIGSEGV:
    case SIGBUS:
    case SIGILL:
    case SIGFPE:
    case SIGABRT:
      return "what to do: this is a bug of trainctl or of a library; keep the run directory and its logs";
    default:
      return "what to do: find out who sent the signal; then " + how_to_continue(e);
  }
}

std::string signal_words(int signal) {
  const char* abbreviation = ::sigabbrev_np(signal);
  const char* description = ::sigdescr_np(signal);
  return fmt::format("signal {} (SIG{}, {})", signal, abbreviation == nullptr ? "?" : abbreviation,
                     description == nullptr ? "unknown" : description);
}

FirstCause of_failure(const Evidence& evidence, const RankFailure& failure) {
  const ErrorKind kind = error_kind_from_name(failure.kind);
  FirstCause cause;
  cause.kind = kind;
  const std::string operation = failure.operation.empty() ? std::string() : ", in " + failure.operation;
  cause.message = fmt::format("rank {} on {}, {}{}: {}", failure.rank, failure.host, step_words(failure.step),
                              operation, first_line(failure.message));
  std::string advised;  // by the rank itself, which knows more
  for (size_t at = failure.message.find('\n'); at != std::string::npos;) {
    const size_t end = failure.message.find('\n', at + 1);
    std::string line = failure.message.substr(at + 1, end == std::string::npos ? end : end - at - 1);
    if (line.starts_with("what to do: "))
      advised = std::move(line);
    else if (cause.details.size() < 20)
      cause.details.push_back(std::move(line));
    at = end;
  }
  if (evidence.failures.size() > 1)
    cause.details.push_back(fmt::format("{} of {} reported an error; this was the first cause",
                                        evidence.failures.size(), counted(evidence.job->world_size, "rank")));
  const RunPaths paths{evidence.job->run_dir};
  cause.details.push_back("log: " + paths.rank_log(failure.rank).string());
  if (kind == ErrorKind::numeric)
    for (std::string& way : ways_around(failure, evidence)) cause.details.push_back(std::move(way));
  cause.details.push_back(advised.empty() ? advice(kind, evidence) : advised);
  return cause;
}

std::string last_words_of(const Evidence& evidence, int64_t rank) {
  return evidence.last_words ? evidence.last_words(rank) : std::string();
}

// A worker's exit code names the kind of its error, even when the report could not be written.
ErrorKind kind_of_exit(std::optional<int> code) {
  for (const ErrorKind kind : {ErrorKind::plan, ErrorKind::environment, ErrorKind::checkpoint})
    if (code && *code == exit_code(kind)) return kind;
  return ErrorKind::rank_failed;
}

// The first line of the launcher's that says something.
std::string first_words(const std::vector<std::string>& lines) {
  for (const std::string& line : lines)
    if (line.find_first_not_of(" \t-") != std::string::npos) return line;
  return "it printed nothing";
}

bool is_word_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '/'; }

bool has_word(const std::string& line, const std::string& word) {
  for (size_t at = line.find(word); at != std::string::npos; at = line.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !is_word_char(line[at - 1])) && (end == line.size() || !is_word_char(line[end]))) return true;
  }
  return false;
}

// mpirun or srun gave up before any rank ran. Its own command line is well formed, so an argument that was added with
// --launcher-arg is to blame when there is one and nothing else explains the end.
FirstCause of_refusing_launcher(const Evidence& e) {
  std::string named, all;
  for (const std::string& argument : e.launcher_arguments) {
    all += (all.empty() ? "--launcher-arg " : " --launcher-arg ") + argument;
    if (argument.find_first_not_of("-") == std::string::npos) continue;
    for (const std::string& line : e.launcher_lines)
      if (has_word(line, argument)) named = argument;
  }
  const std::string& problem = e.verdict.launcher_problem;
  const bool theirs = !named.empty() || (!all.empty() && problem.empty());
  FirstCause cause;
  cause.kind = theirs ? ErrorKind::usage : ErrorKind::environment;
  const std::string words = problem.empty() ? first_words(e.launcher_lines) : first_line(problem);
  const std::string how = e.child.exited ? fmt::format("exit code {}", e.child.code) : signal_words(e.child.code);
  cause.message = fmt::format("{} ended before any rank started ({}): {}", e.job->launcher, how, words);
  if (theirs) cause.message = fmt::format("{}: {}", named.empty() ? all : "--launcher-arg " + named, cause.message);
  for (const std::string& line : e.launcher_lines)
    if (cause.details.size() < 12 && line.find_first_not_of(" \t-") != std::string::npos && line != words)
      cause.details.push_back(line);
  cause.details.push_back("log: " + (RunPaths{e.job->run_dir}.logs() / "launcher.log").string());
  cause.details.push_back(theirs ? fmt::format("what to do: correct or leave out {}, then run the same command again; "
                                               "--dry-run prints the whole {} line",
                                               named.empty() ? all : "--launcher-arg " + named, e.job->launcher)
                                 : advice(cause.kind, e));
  return cause;
}

// No rank wrote a report: mpirun's, srun's or the kernel's word is all there is.
FirstCause of_silence(const Evidence& evidence) {
  const Job& job = *evidence.job;
  const LauncherVerdict& verdict = evidence.verdict;
  const std::string when = evidence.last_step > 0 ? fmt::format("after step {}", evidence.last_step)
                                                  : std::string("before the first step was done");
  FirstCause cause;
  if (!evidence.ranks_started && verdict.rank < 0 && job.launcher != "threads") return of_refusing_launcher(evidence);
  if (!verdict.launcher_problem.empty()) {
    cause.kind = ErrorKind::environment;
    cause.message = fmt::format("{} could not start the ranks: {}", job.launcher, first_line(verdict.launcher_problem));
    cause.details = evidence.launcher_lines;
    cause.details.push_back(advice(cause.kind, evidence));
    return cause;
  }
  const int64_t rank = verdict.rank;
  if (rank >= 0) {
    const std::string host = verdict.host.empty() ? host_of(job, rank) : verdict.host;
    std::string how = "died without an error report";
    if (verdict.signal)
      how = "was killed by " + signal_words(*verdict.signal);
    else if (verdict.exit_code)
      how = fmt::format("ended with exit code {} and no error report", *verdict.exit_code);
    cause.kind = kind_of_exit(verdict.exit_code);
    cause.message = fmt::format("rank {} on {}, {}: the process {}", rank, host, when, how);
    if (const std::string line = last_words_of(evidence, rank); !line.empty())
      cause.details.push_back("its last words: " + line);
    cause.details.push_back("log: " + RunPaths{job.run_dir}.rank_log(rank).string());
    cause.details.push_back(verdict.signal ? advice_for_signal(*verdict.signal, evidence)
                                           : advice(cause.kind, evidence));
    return cause;
  }
  const bool threads = job.launcher == "threads";
  if (evidence.child.exited) cause.kind = kind_of_exit(evidence.child.code);
  const std::string who =
      threads ? fmt::format("the worker process with all {} on {}", counted(job.world_size, "rank"), host_of(job, 0))
              : job.launcher;
  const std::string how = evidence.child.exited ? fmt::format("ended with exit code {}", evidence.child.code)
                                                : "was killed by " + signal_words(evidence.child.code);
  cause.message = fmt::format("{}, {}: {}, without an error report", who, when, how);
  const size_t shown = std::min<size_t>(evidence.launcher_lines.size(), 8);
  cause.details.assign(evidence.launcher_lines.end() - static_cast<std::ptrdiff_t>(shown),
                       evidence.launcher_lines.end());
  if (threads) cause.details.push_back("log: " + RunPaths{job.run_dir}.rank_log(0).string());
  cause.details.push_back(evidence.child.exited ? advice(cause.kind, evidence)
                                                : advice_for_signal(evidence.child.code, evidence));
  return cause;
}

}  // namespace

FirstCause first_cause(const Evidence& evidence) {
  const RankFailure* first = nullptr;
  int first_distance = 0;
  std::vector<RankFailure> hangs;
  for (const RankFailure& failure : evidence.failures) {
    const ErrorKind kind = error_kind_from_name(failure.kind);
    if (kind == ErrorKind::hang) hangs.push_back(failure);
    const int distance = distance_from_root(kind);
    if (first == nullptr || distance < first_distance ||
        (distance == first_distance && failure.time_ns < first->time_ns)) {
      first = &failure;
      first_distance = distance;
    }
  }
  const auto reported = [&evidence](int64_t rank) {
    return std::any_of(evidence.failures.begin(), evidence.failures.end(),
                       [rank](const RankFailure& f) { return f.rank == rank; });
  };
  // Its peers saw lost messages, and said so; it could not. (A launcher that ends a job sends SIGTERM, then SIGKILL,
  // but names the rank that died first.)
  const LauncherVerdict& verdict = evidence.verdict;
  const bool died_silently = verdict.signal && *verdict.signal != SIGTERM && !reported(verdict.rank);
  if (first == nullptr || (died_silently && first_distance > 0 && hangs.size() != evidence.failures.size()))
    return of_silence(evidence);
  if (first_distance == 3) return explain_hang(evidence, hangs);
  return of_failure(evidence, *first);
}

FirstCause explain_hang(const Evidence& evidence, const std::vector<RankFailure>& hangs) {
  const auto process_of = [&evidence](int64_t rank) -> const ProcessInfo* {
    for (const ProcessInfo& p : evidence.processes)
      if (p.rank == rank) return &p;
    return nullptr;
  };
  const auto stopped = [&](int64_t rank) {
    const ProcessInfo* p = process_of(rank);
    return p != nullptr && (p->state == 'T' || p->state == 't');
  };
  // What a stopped rank says when it is woken to be ended is no report of waiting.
  const auto report_of = [&](int64_t rank) -> const RankFailure* {
    for (const RankFailure& h : hangs)
      if (h.rank == rank && !stopped(rank)) return &h;
    return nullptr;
  };
  const auto same_operation = [](const RankFailure& a, const RankFailure& b) {
    return a.group_axis == b.group_axis && a.group_ranks == b.group_ranks && a.sequence == b.sequence;
  };
  const auto split = [&](const RankFailure& at, std::vector<int64_t>& entered, std::vector<int64_t>& missing) {
    for (const int64_t rank : at.group_ranks) {
      const RankFailure* other = report_of(rank);
      (other != nullptr && same_operation(*other, at) ? entered : missing).push_back(rank);
    }
  };

  // Follow "waits for" to ranks that wait for nobody, from the earliest report that names an operation: a rank that
  // says only where it stands leads nowhere.
  const RankFailure* at = nullptr;
  const auto better = [](const RankFailure& a, const RankFailure& b) {
    return std::pair(a.group_ranks.empty(), a.time_ns) < std::pair(b.group_ranks.empty(), b.time_ns);
  };
  for (const RankFailure& h : hangs)
    if (report_of(h.rank) != nullptr && (at == nullptr || better(h, *at))) at = &h;
  if (at == nullptr) at = &hangs.front();
  std::vector<const RankFailure*> visited;
  std::vector<int64_t> entered, missing;
  for (bool moved = true; moved;) {
    moved = false;
    visited.push_back(at);
    entered.clear();
    missing.clear();
    split(*at, entered, missing);
    const RankFailure* next = nullptr;
    bool ends_here = false;
    for (const int64_t rank : missing) {
      const RankFailure* report = report_of(rank);
      if (report == nullptr || report->group_ranks.empty())
        ends_here = true;
      else if (next == nullptr && std::find(visited.begin(), visited.end(), report) == visited.end())
        next = report;
    }
    if (!ends_here && next != nullptr) {
      at = next;
      moved = true;
    }
  }

  const auto list = [](const std::vector<int64_t>& ranks) {
    if (ranks.empty()) return std::string("no rank");
    return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
  };
  const auto where = [&](int64_t rank) {
    const ProcessInfo* p = process_of(rank);
    return fmt::format("rank {} on {}{}", rank, host_of(*evidence.job, rank),
                       p == nullptr ? "" : fmt::format(" (pid {})", p->pid));
  };
  const std::string what = at->message.substr(0, at->message.find_first_of(";\n"));
  FirstCause cause;
  cause.kind = ErrorKind::hang;
  cause.message = fmt::format("{}, {}: {}", step_words(at->step), at->operation, what);
  if (at->group_ranks.empty())
    cause.message = fmt::format("rank {} on {}: {}", at->rank, host_of(*evidence.job, at->rank), cause.message);
  else
    cause.message += fmt::format("; entered by {}; not by {}", list(entered), list(missing));
  for (const int64_t rank : missing) {
    std::string line = where(rank) + ": ";
    if (const RankFailure* other = report_of(rank))
      line += fmt::format("was in {}: {}", other->operation, first_line(other->message));
    else
      line += stopped(rank) ? "the process is stopped (SIGSTOP or a debugger)" : "no report";
    if (report_of(rank) == nullptr)
      if (const std::string words = last_words_of(evidence, rank); !words.empty()) line += "; last words: " + words;
    cause.details.push_back(line);
  }
  for (const int64_t rank : entered) cause.details.push_back(where(rank) + ": waited in it");
  cause.details.push_back(
      "log: " + RunPaths{evidence.job->run_dir}.rank_log(missing.empty() ? at->rank : missing.front()).string());
  cause.details.push_back(advice(ErrorKind::hang, evidence));
  return cause;
}

}  // namespace trainctl
