// lib/checkpoint/checkpointer_state.h -- the inside of a Checkpointer (not for users of the module).
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/checkpointer.h"
#include "checkpoint/staging.h"

namespace trainctl {

class Checkpointer::State {
 public:
  State(const CheckpointConfig& config, CheckpointerOptions options, Arena& arena, const StateCatalog& catalog);
  ~State();

  void save(const StateCatalog& catalog, const ScalarState& scalars, SaveReason reason);
  void wait_copied();
  std::vector<SaveOutcome> poll();
  std::vector<SaveOutcome> wait();
  RestoreResult restore(const StateCatalog& catalog, const std::string& from, bool allow_intermediate);
  std::vector<std::filesystem::path> leave_later_steps();
  bool due(int64_t step) const { return config_.every_steps > 0 && step > 0 && step % config_.every_steps == 0; }

 private:
  using Clock = std::chrono::steady_clock;
  IoOptions io_options() const;
  bool in_flight();  // joins a writer that is done
  void finish();     // blocks until none is in flight
  void report(SaveOutcome outcome) { outcomes_.push_back(std::move(outcome)); }
  std::string decide(int64_t step, int64_t bytes,
                     SaveReason reason);                           // rank 0's word on this save: "go", "done" or "no"
  std::string copy_now(const StateCatalog& catalog, int threads);  // what stage() says; never throws
  void write(const SaveJob& job, const std::string& fault, Clock::time_point start);  // the writer thread

  CheckpointConfig config_;
  CheckpointerOptions options_;
  Arena& arena_;
  std::unique_ptr<StagingArea> staging_;
  std::string parent_;           // manifest digest this run continues from
  int64_t saved_step_ = -1;      // the newest state of this run that is known to be on disk
  int64_t rolled_back_to_ = -1;  // by restore(path), until leave_later_steps()

  std::mutex copy_mutex_;
  std::condition_variable copy_done_;
  bool copied_ = true;   // under copy_mutex_: the writer thread needs the catalog's tensors no more
  double waited_s_ = 0;  // the caller's, in wait_copied()

  std::thread writer_;
  std::atomic<bool> done_ = false, cancelled_ = false;
  SaveOutcome current_;           // the writer's until done_
  std::string current_manifest_;  // its SHA-256, rank 0
  KnownPlan known_plan_;          // rank 0's writer's
  std::vector<SaveOutcome> outcomes_;
};

}  // namespace trainctl
