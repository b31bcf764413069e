// tests/fault/checkpoint/sweep.h -- a save repeated with one thing going wrong, at each system call in turn.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "fault/checkpoint/scenario.h"
#include "support/subprocess.h"

namespace trainctl::testing {

// One system call of the save path: the `number`-th of its name in a thread of `rank`.
struct CallPoint {
  int64_t rank = 0;
  std::string call;
  int64_t number = 0;
};

// What a repetition left.
struct SaveRun {
  std::vector<SubprocessResult> ranks;
  std::filesystem::path folder;
};

class Sweep {
 public:
  // `config`: the checkpoint section the ranks save with.
  Sweep(const Scenario& scenario, const std::string& config);

  // Every call of every rank that belongs to an undisturbed save, in the order in which they happen.
  const std::vector<CallPoint>& points() const { return points_; }

  // Prepares the folder of `lane` anew and saves `saves` times, rank `meant.rank` under strace with `options` and with
  // its calls of `meant.call` numbered ("all": of every kind). The other ranks get `patience_s` more after its end, and
  // are then killed, as a launcher does. Different lanes may run at once.
  SaveRun run(int lane, const CallPoint& meant, const std::vector<std::string>& options, int64_t saves,
              double patience_s) const;

  // The judge's verdict on `folder`, from a process of its own.
  Judgement judge(const std::filesystem::path& folder) const;

  const Scenario& scenario() const { return scenario_; }

 private:
  std::vector<std::string> command(const std::filesystem::path& place, int64_t rank, const CallPoint& meant,
                                   int64_t saves) const;

  const Scenario& scenario_;
  std::string config_;
  ScratchFolder scratch_;
  std::vector<CallPoint> points_;
};

}  // namespace trainctl::testing
