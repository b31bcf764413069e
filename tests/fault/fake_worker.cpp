// tests/fault/fake_worker.cpp -- a worker without MPI that misbehaves on demand; the launcher cannot tell the
// difference.
//
// FAKE_WORKER is a list of "what:rank:detail" separated by spaces; every rank does its own entries at step 3:
//   exit:R:CODE  kill:R:SIGNAL  error:R:KIND (report, then exit)  hang:R:SECONDS (report a hang after so long)
//   stuck:R (sleeps for good)   silent:R (no steps, exit 0)       say:R (one line on stderr)
//   unready:R (waits for good before it is ready; no rank then makes a step)   mute:R:KIND (reports on stderr alone)
//   deaf:R (ignores SIGTERM)    late:R:SECONDS (stops that much after a stop request)
#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <sstream>
#include <thread>

#include "base/atomic_file.h"
#include "base/error.h"
#include "recipe/job.h"

namespace {

using namespace trainctl;

struct Deed {
  std::string what, detail;
};

void sleep_s(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

int64_t own_rank() {
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "SLURM_PROCID"})
    if (const char* text = std::getenv(variable)) return std::atoll(text);
  return 0;
}

std::vector<Deed> deeds_of(int64_t rank) {
  const char* text = std::getenv("FAKE_WORKER");
  std::istringstream words(text == nullptr ? "" : text);
  std::vector<Deed> deeds;
  for (std::string word; words >> word;) {
    const size_t first = word.find(':'), second = word.find(':', first + 1);
    const std::string who = word.substr(first + 1, second == std::string::npos ? second : second - first - 1);
    if (std::atoll(who.c_str()) == rank)
      deeds.push_back({word.substr(0, first), second == std::string::npos ? "" : word.substr(second + 1)});
  }
  return deeds;
}

bool somebody(const char* does) {
  const char* text = std::getenv("FAKE_WORKER");
  return text != nullptr && std::strstr(text, does) != nullptr;
}

[[noreturn]] void wait_for_good() {
  for (;;) ::pause();
}

RankFailure report_of(const Job& job, int64_t rank, const std::string& kind, const std::string& operation,
                      const std::string& message) {
  return {.rank = rank,
          .host = job.ranks[static_cast<size_t>(rank)].host,
          .pid = ::getpid(),
          .kind = kind,
          .step = 3,
          .operation = operation,
          .message = message,
          .time_ns =
              std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
                  .count()};
}

void commit(const Job& job, int64_t rank, const Deed& deed) {
  const RunPaths paths{job.run_dir};
  if (deed.what == "exit") std::_Exit(std::atoi(deed.detail.c_str()));
  if (deed.what == "kill") ::kill(::getpid(), std::atoi(deed.detail.c_str()));
  if (deed.what == "say") fmt::print(stderr, "the last words of rank {}\n", rank);
  if (deed.what == "stuck") wait_for_good();
  if (deed.what == "mute") {
    fmt::print(stderr, "{}\n", line_of(report_of(job, rank, deed.detail, "write metrics", "no space, says the fake")));
    std::_Exit(exit_code(error_kind_from_name(deed.detail)));
  }
  if (deed.what == "error") {
    save_rank_failure(report_of(job, rank, deed.detail, "forward layers.1 attention", "made up by the fake worker"),
                      paths.rank_error(rank));
    std::_Exit(exit_code(error_kind_from_name(deed.detail)));
  }
  if (deed.what == "hang") {
    const double seconds = std::atof(deed.detail.c_str());
    sleep_s(seconds);
    RankFailure failure = report_of(job, rank, "hang", "forward head",
                                    "all_reduce #57 in the tensor group, not finished for 1 s (limit 1 s); step 3");
    failure.group_axis = "tensor";
    for (int64_t r = 0; r < job.world_size; ++r) failure.group_ranks.push_back(r);
    failure.sequence = 57;
    failure.waited_s = seconds;
    save_rank_failure(failure, paths.rank_error(rank));
    sleep_s(1.5);  // let the others report too
    std::_Exit(exit_code(ErrorKind::hang));
  }
}

int work(const Job& job, int64_t rank) {
  const RunPaths paths{job.run_dir};
  const std::vector<Deed> deeds = deeds_of(rank);
  double late_s = 0;
  for (const Deed& deed : deeds) {
    if (deed.what == "deaf") std::signal(SIGTERM, SIG_IGN);
    if (deed.what == "late") late_s = std::atof(deed.detail.c_str());
    if (deed.what == "silent") return 0;
  }
  LineWriter log(paths.rank_log(rank));
  log.line(fmt::format("pid {}", ::getpid()));
  log.line(fmt::format("{}{}", kRankStartLine, rank));
  for (const Deed& deed : deeds)
    if (deed.what == "unready") wait_for_good();
  log.line(kRankReadyLine);
  if (somebody("unready")) wait_for_good();  // in the first operation of all ranks
  if (rank == 0)
    LineWriter(paths.events()).line(fmt::format(R"({{"step":0,"level":"{}","text":"ready"}})", kReadyEvent));
  std::optional<LineWriter> metrics;
  int64_t first = 1;
  if (rank == 0) {
    if (std::filesystem::exists(paths.metrics())) {
      const std::string text = read_file(paths.metrics());
      first += std::count(text.begin(), text.end(), '\n');
    }
    metrics.emplace(paths.metrics());
  }
  for (int64_t step = first; step <= job.recipe.runtime.steps; ++step) {
    sleep_s(0.03);
    if (step == 3 || (rank != 0 && step == first + 2))
      for (const Deed& deed : deeds) commit(job, rank, deed);
    if (metrics)
      metrics->line(fmt::format(R"({{"step":{},"loss":{:.3f},"grad_norm":1.5,"lr":0.001,"tokens":64,)"
                                R"("tokens_per_s":1000,"mfu":null,"step_s":0.03}})",
                                step, 5.0 / static_cast<double>(step)));
    if (std::filesystem::exists(paths.stop_request())) {
      sleep_s(late_s);
      return 75;
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const pid_t parent = ::getppid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) return 4;
  std::string launch;
  for (int i = 1; i + 1 < argc; ++i)
    if (std::strcmp(argv[i], "--launch") == 0) launch = argv[i + 1];
  try {
    return work(load_job(launch), own_rank());
  } catch (const Error& e) {
    fmt::print(stderr, "{}\n", e.what());
    return exit_code(e.kind());
  }
}
