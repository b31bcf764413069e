// lib/runtime/executor.h -- walks one stage's program of a pipeline schedule.
#pragma once

#include <memory>
#include <vector>

#include "parallel/sharded_model.h"
#include "runtime/batches.h"
#include "schedule/schedule.h"

namespace trainctl {

struct PassOptions {
  uint64_t seed = 0;
  int64_t step = 0;
  float loss_scale = 1.0f;
  Tensor loss_sum;  // f64 [1]
  bool train = true;
  bool recompute_blocks = false;
  // Called after each module's forward with its output, when set (looking for the first non-finite value).
  std::function<void(int micro_batch, const Module& module, const Tensor& y)> inspect;
};

// A sent activation's memory is held until the next send in the same direction, so at most one message per direction
// and stage is under way and every run frees at the same places.
class Executor {
 public:
  explicit Executor(ShardedModel& model) : model_(model) {}
  // Forward and backward of every micro-batch in the program's order; gradients accumulate, and each module's
  // completion in the last backward is told to the gradient reducer.
  void run(const StageProgram& program, const Batches& batches, int micro_batches, const PassOptions& options);

 private:
  struct InFlight {
    std::unique_ptr<Tape> tape;
    Tensor input, output;
  };
  void forward(int m, const Batch& batch, const PassOptions& options);
  void backward(int m, const Batch& batch);
  Tensor receive(const Batch& batch, int peer, const char* place);
  void send(const Tensor& x, int peer, Pending& previous, const char* place);

  ShardedModel& model_;
  std::vector<InFlight> in_flight_;
  bool last_backward_ = false;
  Pending sent_forward_, sent_backward_;
};

}  // namespace trainctl
