// lib/optim/grad_norm.cpp -- the global norm's local part, and the clip factor.
#include <algorithm>

#include "optim/optimizer.h"

namespace trainctl {

void add_sum_of_squares(ShardedModel& model, const Tensor& out) {
  add_sum_of_squares(model, out, {0, model.layout.elements});
}

void add_sum_of_squares(ShardedModel& model, const Tensor& out, Span64 within) {
  for (Span64 range : model.counted) {
    range = {std::max(range.begin, within.begin), std::min(range.end, within.end)};
    if (range.begin >= range.end) continue;
    model.context->run(kernels::SumOfSquares{.x = model.grads.flat_slice(range.begin, {range.size()}), .out = out});
  }
}

double clip_factor(double norm, double limit) { return limit > 0 && norm > limit ? limit / norm : 1.0; }

}  // namespace trainctl
