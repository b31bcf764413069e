// lib/optim/schedule.cpp -- learning-rate schedules as pure functions of the step.
#include <algorithm>
#include <cmath>

#include "optim/optimizer.h"

namespace trainctl {

double learning_rate(const OptimizerConfig& config, int64_t step, int64_t steps) {
  const ScheduleConfig& s = config.schedule;
  if (step <= s.warmup_steps) return config.lr * static_cast<double>(step) / static_cast<double>(s.warmup_steps);
  const double floor = s.min_lr_ratio;
  if (s.kind == "constant") return config.lr;
  if (s.kind == "wsd") {
    const int64_t decay_from = steps - s.decay_steps;
    if (s.decay_steps <= 0 || step <= decay_from) return config.lr;
    const double done = std::min(1.0, static_cast<double>(step - decay_from) / static_cast<double>(s.decay_steps));
    return config.lr * (1.0 - (1.0 - floor) * done);
  }
  const int64_t end = s.decay_steps > 0 ? s.decay_steps : steps;
  const double length = static_cast<double>(std::max<int64_t>(1, end - s.warmup_steps));
  const double done = std::min(1.0, static_cast<double>(step - s.warmup_steps) / length);
  const double left = s.kind == "linear" ? 1.0 - done : 0.5 * (1.0 + std::cos(3.14159265358979323846 * done));
  return config.lr * (floor + (1.0 - floor) * left);
}

}  // namespace trainctl
