// apps/trainctl_worker/main.cpp -- one rank under mpirun or srun, or all ranks of a run as threads of one process.
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <string_view>
#include <thread>
#include <vector>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/units.h"
#include "comm/backends.h"
#include "recipe/job.h"
#include "trainer/rank_report.h"
#include "trainer/train.h"

namespace {

using namespace trainctl;

constexpr int kStoppedExit = 75;

// A worker whose parent (mpirun, the launcher) died must not live on. The signal is set first, the parent looked at
// afterwards: it may have died in between.
void die_with_parent() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() == 1 && std::getenv("TRAINCTL_ORPHAN_OK") == nullptr) {
    fmt::print(stderr, "trainctl_worker: its parent is gone; start it through `trainctl launch`\n");
    std::_Exit(exit_code(ErrorKind::environment));
  }
}

// Held as long as this process lives, so that no later launch starts ranks beside it.
FileLock share_run(const Job& job) {
  FileLock lock;
  if (!lock.try_share(RunPaths{job.run_dir}.ranks_lock(), fmt::format("pid {} on {}", getpid(), host_name())))
    fail(ErrorKind::environment, fmt::format("another launch is starting ranks in {}", job.run_dir));
  return lock;
}

CollectivesOptions options_of(const Job& job) {
  return {.message_chunk_bytes = job.recipe.parallelism.message_chunk_bytes};
}

int run_mpi(const Job& job) {
  auto collectives = make_mpi_world_collectives(options_of(job));
  const int rank = collectives->rank();
  // Before anything is written: N processes that each believe they are alone must leave no trace in the run directory.
  if (collectives->size() != job.world_size)
    fail(ErrorKind::environment,
         fmt::format("this process is rank {} of {}, but the plan has {}; start the worker through `trainctl "
                     "launch`, and under srun name the PMI of this MPI (--mpi=pmix)",
                     rank, collectives->size(), counted(job.world_size, "rank")));
  const FileLock lock = share_run(job);
  const Logger log = make_file_logger(RunPaths{job.run_dir}.rank_log(rank), rank);
  const TrainEnd end = train_rank(
      {.job = job, .collectives = std::move(collectives), .log = log, .abort = [](int code, const std::string&) {
         abort_mpi(code);
       }});
  return end == TrainEnd::stopped ? kStoppedExit : 0;
}

int run_threads(const Job& job) {
  const FileLock lock = share_run(job);
  const auto hub = make_threads_hub(static_cast<int>(job.world_size));
  std::atomic<int> code{0};
  const auto abort = [&hub, &code](int rank_code, const std::string& reason) {
    int none = 0;
    code.compare_exchange_strong(none, rank_code);
    hub->abort(reason);
    // Threads cannot be ended from outside: when one stays stuck, the process goes.
    std::thread([rank_code] {
      std::this_thread::sleep_for(std::chrono::seconds(5));
      std::_Exit(rank_code);
    }).detach();
  };
  std::vector<std::thread> ranks;
  for (int r = 0; r < hub->size(); ++r)
    ranks.emplace_back([&, r] {
      try {
        const TrainEnd end = train_rank({.job = job,
                                         .collectives = hub->collectives_for(r, options_of(job)),
                                         .log = make_file_logger(RunPaths{job.run_dir}.rank_log(r), r),
                                         .abort = abort});
        int none = 0;
        if (end == TrainEnd::stopped) code.compare_exchange_strong(none, kStoppedExit);
      } catch (const std::exception&) {
        // Reported by train_rank; the first code stays.
      }
    });
  for (std::thread& t : ranks) t.join();
  return code.load();
}

}  // namespace

int main(int argc, char** argv) {
  die_with_parent();
  std::string launch;
  bool threads = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--threads") {
      threads = true;
    } else if (argument == "--launch" && i + 1 < argc) {
      launch = argv[++i];
    } else {
      fmt::print(stderr,
                 "trainctl_worker: unknown argument {}; usage: trainctl_worker [--threads] --launch launch.json\n",
                 argument);
      return exit_code(ErrorKind::usage);
    }
  }
  if (launch.empty()) {
    fmt::print(stderr, "trainctl_worker is started by `trainctl launch`; usage: [--threads] --launch launch.json\n");
    return exit_code(ErrorKind::usage);
  }
  try {
    const Job job = load_job(launch);
    return threads ? run_threads(job) : run_mpi(job);
  } catch (const Error& error) {
    fmt::print(stderr, "trainctl_worker: {}: {}\n", name(error.kind()), error.what());
    return exit_code(error.kind());
  } catch (const std::exception& error) {
    fmt::print(stderr, "trainctl_worker: {}\n", error.what());
    return exit_code(ErrorKind::internal);
  }
}
