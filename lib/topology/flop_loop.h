// lib/topology/flop_loop.h -- the inner loop of the FLOP measurement: one implementation per instruction set.
#pragma once

#include <cstdint>
#include <vector>

namespace trainctl {

// `run` advances `chains` independent sums of `lanes` f32 lanes by `step` per iteration, through multiply-adds that
// perform `flops_per_iteration` operations together, and stores lane sums to out[chains * lanes]. Chain i starts at i.
// Steps are powers of two and the sums stay below 2^24 steps, so the exact result is i + iterations * step.
struct FlopLoop {
  const char* instruction = "";
  int chains = 0, lanes = 0;
  int64_t flops_per_iteration = 0;
  float step = 0;
  void (*run)(int64_t iterations, float* out) = nullptr;
};

inline constexpr int kMaxFlopResults = 1024;  // chains * lanes of every loop

// The fastest first; the last one is portable. Only loops this processor can execute.
std::vector<FlopLoop> f32_flop_loops();
std::vector<FlopLoop> bf16_flop_loops();  // may be empty

}  // namespace trainctl
