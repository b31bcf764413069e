// lib/optim/optimizer_config.h -- the recipe's "optimizer" section.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/config_visitor.h"

namespace trainctl {

struct ScheduleConfig {
  std::string kind = "constant";  // constant | linear | cosine | wsd
  int64_t warmup_steps = 0;
  int64_t decay_steps = 0;  // 0: runtime.steps; wsd: length of the final decay
  double min_lr_ratio = 0.0;
  void describe(ConfigVisitor& v);
};

struct OptimizerConfig {
  std::string kind = "adamw";  // adamw | sgd
  double lr = 0;
  std::vector<double> betas = {0.9, 0.95};
  double eps = 1e-8;
  double momentum = 0.0;        // sgd
  double weight_decay = 0.0;    // matrices and embeddings; never norms, never biases
  double clip_grad_norm = 0.0;  // 0: no clipping
  ScheduleConfig schedule;
  void describe(ConfigVisitor& v);
};

}  // namespace trainctl
