// lib/optim/optimizer.h -- SEAM 3: build_optimizer. Sees a rank's flat shards; owns moments.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "optim/optimizer_config.h"
#include "parallel/sharded_model.h"

namespace trainctl {

struct UpdateInputs {
  int64_t step = 1;  // optimizer steps done so far + 1
  double lr = 0;
  float grad_scale = 1.0f;  // the clip factor
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Moves the master weights by the gradients and refreshes the compute weights.
  virtual void step(const UpdateInputs& inputs) = 0;
  // Its own state by name: roles exp_avg, exp_avg_sq or momentum.
  virtual StateCatalog catalog() const = 0;
};

// States start at 0, in f32, one element per element of the rank's flat buffers. `model` outlives the optimizer.
std::unique_ptr<Optimizer> build_optimizer(ShardedModel& model, const OptimizerConfig& config);

// Learning rate of step 1, 2, ... `steps`: linear warm-up from lr / warmup_steps, then
//   constant; linear or cosine from lr to min_lr_ratio lr at decay_steps (default: steps);
//   wsd: constant, then linear to min_lr_ratio lr over the last decay_steps steps.
double learning_rate(const OptimizerConfig& config, int64_t step, int64_t steps);

// Adds the squares of this rank's counted gradients to out (f64 [1]); of the flat range `within` alone when given.
void add_sum_of_squares(ShardedModel& model, const Tensor& out);
void add_sum_of_squares(ShardedModel& model, const Tensor& out, Span64 within);

// min(1, limit / norm); 1 when limit is 0. Source: Pascanu et al. 2013.
double clip_factor(double norm, double limit);

// Which parameters decay, with counts: "decay 0.1: 57 tensors, 1.2 M; none: 17 tensors, 4.1 K".
struct DecayGroup {
  double weight_decay = 0;
  int64_t tensors = 0, elements = 0;  // logical: of the whole model
};
std::vector<DecayGroup> decay_groups(const Model& model, const OptimizerConfig& config);

}  // namespace trainctl
