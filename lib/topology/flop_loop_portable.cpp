// lib/topology/flop_loop_portable.cpp -- four-lane vectors of the compiler; it maps them to what the target has.
#include "topology/flop_loop_portable.h"

namespace trainctl {
namespace {

using Vector = float __attribute__((vector_size(16)));
constexpr int kChains = 8, kLanes = 4;
constexpr float kStep = 1.0f / 4096;

void run(int64_t iterations, float* out) {
  volatile float opaque_one = 1.0f, opaque_step = kStep;  // the compiler must not see that the product changes nothing
  const float one = opaque_one, step = opaque_step;
  const Vector m = {one, one, one, one}, c = {step, step, step, step};
  Vector x0 = {}, x1 = x0 + 1, x2 = x0 + 2, x3 = x0 + 3, x4 = x0 + 4, x5 = x0 + 5, x6 = x0 + 6, x7 = x0 + 7;
  for (int64_t i = 0; i < iterations; ++i) {
    x0 = x0 * m + c;
    x1 = x1 * m + c;
    x2 = x2 * m + c;
    x3 = x3 * m + c;
    x4 = x4 * m + c;
    x5 = x5 * m + c;
    x6 = x6 * m + c;
    x7 = x7 * m + c;
  }
  const Vector all[kChains] = {x0, x1, x2, x3, x4, x5, x6, x7};
  for (int chain = 0; chain < kChains; ++chain)
    for (int lane = 0; lane < kLanes; ++lane) out[chain * kLanes + lane] = all[chain][lane];
}

}  // namespace

FlopLoop portable_flop_loop() {
  return {.instruction = "portable",
          .chains = kChains,
          .lanes = kLanes,
          .flops_per_iteration = 2 * kChains * kLanes,
          .step = kStep,
          .run = run};
}

}  // namespace trainctl
