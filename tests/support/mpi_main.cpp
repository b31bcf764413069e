// tests/support/mpi_main.cpp -- main of tests that run as several MPI processes. After each case the ranks exchange
// their verdicts; rank 0 prints the failures of every rank. A rank that failed waits for the others a few seconds only,
// and a case that lasts too long ends the job: nobody waits for ever.
//
// TRAINCTL_MPI_CASE_TIMEOUT: seconds per case, 60 unless set. Cases make their own Collectives (their own
// communicator), so a case that failed halfway does not disturb the next one.
#define CATCH_CONFIG_RUNNER
#define OMPI_SKIP_MPICXX 1  // the C interface alone
#define MPICH_SKIP_MPICXX 1
#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.h"

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kGrace = std::chrono::seconds(5);

[[noreturn]] void abort_job(const std::string& why) {
  fmt::print(stderr, "{}\n", why);
  std::fflush(nullptr);
  MPI_Abort(MPI_COMM_WORLD, 1);
  _exit(1);
}

// Ends the job unless cancelled in time.
class Deadline {
 public:
  Deadline(std::chrono::seconds limit, const std::string& why)
      : thread_([this, limit, why] {
          std::unique_lock lock(mutex_);
          if (!changed_.wait_for(lock, limit, [&] { return cancelled_; })) abort_job(why);
        }) {}
  ~Deadline() {
    {
      const std::lock_guard lock(mutex_);
      cancelled_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool cancelled_ = false;
  std::thread thread_;  // last: it uses the others
};

std::chrono::seconds case_limit() {
  const char* text = std::getenv("TRAINCTL_MPI_CASE_TIMEOUT");
  const int seconds = text ? std::atoi(text) : 0;
  return std::chrono::seconds(seconds > 0 ? seconds : 60);
}

class VerdictExchange : public Catch::TestEventListenerBase {
 public:
  using TestEventListenerBase::TestEventListenerBase;

  void testRunStarting(const Catch::TestRunInfo& info) override {
    TestEventListenerBase::testRunStarting(info);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
  }
  void testCaseStarting(const Catch::TestCaseInfo& info) override {
    TestEventListenerBase::testCaseStarting(info);
    failures_.clear();
    name_ = info.name;
    deadline_ = std::make_unique<Deadline>(
        case_limit(),
        fmt::format("rank {} is stuck in \"{}\" for {} s; the job ends", rank_, name_, case_limit().count()));
  }
  bool assertionEnded(const Catch::AssertionStats& stats) override {
    if (stats.assertionResult.isOk()) return true;
    const Catch::AssertionResult& result = stats.assertionResult;
    failures_ += fmt::format("rank {} in \"{}\" at {}:{}\n", rank_, name_, result.getSourceInfo().file,
                             result.getSourceInfo().line);
    if (result.hasExpression())
      failures_ += fmt::format("  {}\n  with {}\n", result.getExpressionInMacro(), result.getExpandedExpression());
    if (result.hasMessage()) failures_ += fmt::format("  {}\n", std::string(result.getMessage()));
    for (const Catch::MessageInfo& message : stats.infoMessages) failures_ += fmt::format("  {}\n", message.message);
    return true;
  }
  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    TestEventListenerBase::testCaseEnded(stats);
    deadline_ = std::make_unique<Deadline>(
        case_limit() + kGrace,
        failures_ + fmt::format("rank {} waits for the verdicts on \"{}\"; the job ends", rank_, name_));
    int mine = static_cast<int>(std::min<size_t>(failures_.size(), 1 << 16));
    std::vector<int> lengths(static_cast<size_t>(size_)), offsets(lengths.size());
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Iallgather(&mine, 1, MPI_INT, lengths.data(), 1, MPI_INT, comm_, &request);
    const Clock::time_point start = Clock::now();
    for (int done = 0; MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done;) {
      if (mine > 0 && Clock::now() - start > kGrace)
        abort_job(failures_ +
                  fmt::format("rank {} failed and other ranks are still inside the case; the job ends", rank_));
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    int total = 0;
    for (size_t r = 0; r < lengths.size(); ++r) {
      offsets[r] = total;
      total += lengths[r];
    }
    std::string all(static_cast<size_t>(total), ' ');
    MPI_Gatherv(failures_.data(), mine, MPI_CHAR, all.data(), lengths.data(), offsets.data(), MPI_CHAR, 0, comm_);
    if (rank_ == 0 && total > 0) {
      fmt::print("{}", all);
      std::fflush(stdout);
    }
    deadline_.reset();
  }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  std::string failures_, name_;
  std::unique_ptr<Deadline> deadline_;
};

CATCH_REGISTER_LISTENER(VerdictExchange)

}  // namespace

int main(int argc, char** argv) {
  int provided = 0, rank = 0;
  // Multiple: the cases' communication threads use MPI too.
  if (MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS || provided < MPI_THREAD_MULTIPLE) {
    fmt::print(stderr, "this MPI has no MPI_THREAD_MULTIPLE, which the tests need\n");
    return 3;
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  Catch::Session session;
  int failed = session.applyCommandLine(argc, argv);
  if (failed == 0) {
    if (rank != 0) session.configData().outputFilename = "/dev/null";  // their failures reach rank 0 by message
    failed = session.run();
  }
  int worst = 0;
  MPI_Allreduce(&failed, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (rank == 0 && worst != 0) fmt::print("FAILED on some rank, see above; the summary is that of rank 0\n");
  std::fflush(nullptr);
  // After a failure there may be messages that nobody will take; ending in order must not wait for them.
  const Deadline deadline(kGrace, fmt::format("rank {} could not end MPI in order", rank));
  MPI_Finalize();
  return worst == 0 ? 0 : 1;
}
