// tests/bench/bench_trainee.h -- a small GPT-2 that trains beside what is measured, and must learn meanwhile.
#pragma once

#include <memory>

#include "bench_source.h"
#include "trainer/engine.h"

namespace trainctl::bench {

// 4 layers of width 512, 22 million parameters, AdamW, f32: 0.26 GB of state.
class Trainee {
 public:
  Trainee(int threads, int64_t tokens_per_step);  // a multiple of 64
  double step();                                  // seconds
  void check() const;                             // throws unless the loss began at ln(vocabulary) and fell
  int64_t steps() const { return steps_; }
  Engine& engine() { return *engine_; }
  const Recipe& recipe() const { return recipe_; }

 private:
  Recipe recipe_;
  BenchSource source_;
  std::unique_ptr<Engine> engine_;
  int64_t steps_ = 0;
  double first_loss_ = 0, last_loss_ = 0;
};

}  // namespace trainctl::bench
