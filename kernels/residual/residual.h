// kernels/residual/residual.h -- the contracts of the residual stream: add, row bias, dropout.
//
// Add: y = a + b, any shape, contiguous, one dtype (f32, bf16); y may alias a or b; one rounding.
// Dropout: y = x keep / (1 - p), elementwise; used forward on x and backward on dy. keep depends only on
// (key, site, global token, channel): philox(key, site, ...) word for element e = (token_begin + t) * channels + c:
// counter_low = e / 4, word e % 4, keep when word >= round(p 2^32). x, y [T, C] contiguous; y may alias x; channels =
// C.
#pragma once
#include "tensor/tensor.h"

namespace trainctl::kernels {

struct Add {
  static constexpr const char* name = "add";
  ConstTensorView a, b;
  TensorView y;
};
struct Dropout {
  static constexpr const char* name = "dropout";
  ConstTensorView x;
  TensorView y;
  double probability = 0;
  uint64_t key = 0;   // the run's seed
  uint64_t site = 0;  // step and place in the model, mixed by the caller
  // Global token index of each row: row r is token token_begin + (r / run) * jump + r % run.
  int64_t token_begin = 0, run = 1, jump = 1;
};

}  // namespace trainctl::kernels
