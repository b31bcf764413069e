// lib/trainer/train.h -- one rank of a run, from an empty engine to the last checkpoint.
#pragma once

#include <functional>
#include <memory>

#include "base/log.h"
#include "comm/collectives.h"
#include "recipe/job.h"

namespace trainctl {

struct TrainInputs {
  const Job& job;
  std::unique_ptr<Collectives> collectives;
  Logger log;
  // Called after errors/rank-N.json was written, while the engine still stands: ends the other ranks' waiting. MPI:
  // does not return. Threads: makes every pending operation fail.
  std::function<void(int code, const std::string& reason)> abort;
};

enum class TrainEnd : uint8_t { completed, stopped };  // stopped: asked to, after a complete save

// Restores what job.resume says, trains to the last step, evaluates and saves as the recipe says. Rank 0 writes
// metrics.jsonl and counters.json. Throws what went wrong, after reporting it.
TrainEnd train_rank(TrainInputs inputs);

}  // namespace trainctl
