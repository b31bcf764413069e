// kernels/embedding/embedding.h -- the contract of table lookup, whole or a shard of rows.
//
// Forward:  y[t, :] = weight[id[t] - row_begin, :] when row_begin <= id[t] < row_begin + rows, else 0.
// Backward: dweight[id[t] - row_begin, :] += dy[t, :] for ids inside, in ascending t for each row (fixed order).
// ids i32 [T]; weight [rows, D], y [T, D] of one dtype (f32, bf16); dy f32 or bf16 [T, D]; dweight f32 [rows, D].
#pragma once
#include "tensor/tensor.h"

namespace trainctl::kernels {

struct EmbeddingForward {
  static constexpr const char* name = "embedding_forward";
  ConstTensorView ids, weight;
  TensorView y;
  int64_t row_begin = 0;
};
struct EmbeddingBackward {
  static constexpr const char* name = "embedding_backward";
  ConstTensorView ids, dy;
  TensorView dweight;
  int64_t row_begin = 0;
};

}  // namespace trainctl::kernels
