// lib/runtime/runtime.h -- SEAM 4: build_runtime. Owns the order of a step.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "optim/optimizer.h"
#include "runtime/batch_source.h"
#include "runtime/runtime_config.h"

namespace trainctl {

struct StepReport {
  int64_t step = 0;          // from 1
  int64_t first_sample = 0;  // global number of the first of the global batch
  double loss = 0;           // sum over counted tokens of the global batch / their number
  double grad_norm = 0;      // before clipping
  double clip_factor = 1;
  double lr = 0;
  int64_t tokens = 0;          // of the global batch
  int64_t counted_tokens = 0;  // of them in the loss
  bool skipped = false;        // no counted token: the weights did not move
  double step_s = 0, data_wait_s = 0, comm_exposed_s = 0;
  // With log_layer_norms: gradient norms before clipping of the embedding, each layer, the head; else empty. A tied
  // embedding counts with the embedding. Their squares add up to the square of grad_norm.
  std::vector<double> layer_norms;
};

struct RuntimeInputs {
  RuntimeConfig config;       // resolved
  OptimizerConfig optimizer;  // schedule and clipping
  std::string pipeline_schedule = "1f1b";
  int64_t sequence_tokens = 0;
  bool document_mask = false;
  BatchSource* source = nullptr;  // null on a shape_only device
};

class Runtime {
 public:
  virtual ~Runtime() = default;
  // Step `step` uses the global batch of samples from number `sample` on, and each later step the one behind. Until it
  // is called: step 1 from sample 0.
  virtual void start_at(int64_t step, int64_t sample) = 0;
  // One optimizer step, number `step` (from 1). Every rank calls it and gets the same report. Throws Error{numeric}
  // when the loss or the norm is not finite; the weights are then unchanged.
  virtual StepReport step(int64_t step) = 0;
  // `hook` is called in every step, on the caller's thread, when the gradients are complete and before the first
  // weight, master or moment changes: whoever still reads them can make the step wait.
  virtual void before_update(std::function<void()> hook) = 0;
  // Mean loss over the first eval_batches global batches of the validation split; touches no state of training.
  virtual double evaluate() = 0;
  // The forward and backward passes alone: gradients are complete and reduced, weights unchanged. For tests.
  virtual StepReport gradients(int64_t step) = 0;
};

std::unique_ptr<Runtime> build_runtime(ShardedModel& model, Optimizer& optimizer, const RuntimeInputs& inputs);

}  // namespace trainctl
