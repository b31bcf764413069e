// kernels/cross_entropy/cross_entropy.h -- the contract of softmax cross-entropy over a shard of the vocabulary, in
// three steps so that shards can meet between them (max, then sums), on a chunk of rows.
//
// logits [T, V_local], last stride 1, any leading stride, f32; labels i32 [T] global ids, -1: not counted;
// column_begin: global id of column 0; maximum, sum, target f32 [T].
// Max:   maximum[t] = max over columns (-inf when V_local == 0).
// Sum:   sum[t] = sum_c exp(logits - maximum[t]); target[t] = logits[t, label] - maximum[t] when the label is in this
//        shard, else 0. `maximum` is the one over all shards.
// Loss:  *loss (f64 [1]) += sum over counted t of log(sum[t]) - target[t], rows in ascending order.
// Grad:  logits := scale (exp(logits - maximum)/sum - [column is the label]) for counted rows, 0 for others; in place,
// or
//        stored as bf16 to `dlogits` when given.
#pragma once
#include "tensor/tensor.h"

namespace trainctl::kernels {

struct CrossEntropyMax {
  static constexpr const char* name = "cross_entropy_max";
  ConstTensorView logits;
  TensorView maximum;
};
struct CrossEntropySum {
  static constexpr const char* name = "cross_entropy_sum";
  ConstTensorView logits, labels, maximum;
  TensorView sum, target;
  int64_t column_begin = 0;
};
struct CrossEntropyLoss {
  static constexpr const char* name = "cross_entropy_loss";
  ConstTensorView labels, sum, target;
  TensorView loss;
};
struct CrossEntropyGrad {
  static constexpr const char* name = "cross_entropy_grad";
  TensorView logits;
  ConstTensorView labels, maximum, sum;
  TensorView dlogits;  // empty: in place
  float scale = 1.0f;
  int64_t column_begin = 0;
};

}  // namespace trainctl::kernels
