// kernels/attention/attention.h -- the contract of causal grouped-query attention in blocks: no S x S matrix is held.
//
// out[b,i,h,:] = sum_j p[i,j] v[b,j,g(h),:], p = softmax_j(scale q[b,i,h,:] . k[b,j,g(h),:]) over j in
// [document_start[b,i], i]; lse[b,h,i] = log sum_j exp(...). g(h) = (head_offset + h) / group: `group` query heads
// share a key/value head; head_offset is this shard's first query head modulo group. q, out, dq, dout [B, S, H, D]; k,
// v, dk, dv [B, S, K, D]: any strides but the last, one dtype (f32, bf16). lse f32 [B, H, S] contiguous. document_start
// i32 [B, S] (index within the sequence) or empty: 0 everywhere. Scores, softmax and sums in f32. dq, dk, dv
// overwritten, alias nothing. Sums in a fixed order for any thread count. flops: 2 products of S(S+1)/2 pairs forward,
// 5 backward (scores recomputed), documents not subtracted. Sources: Dao 2023 (FlashAttention-2), Ainslie et al. 2023
// (grouped queries).
#pragma once
#include "tensor/tensor.h"

namespace trainctl::kernels {

struct AttentionForward {
  static constexpr const char* name = "attention_forward";
  ConstTensorView q, k, v, document_start;
  TensorView out, lse;
  float scale = 1.0f;
  int64_t group = 1, head_offset = 0;
};
struct AttentionBackward {
  static constexpr const char* name = "attention_backward";
  ConstTensorView q, k, v, document_start, out, lse, dout;
  TensorView dq, dk, dv;
  TensorView delta;  // scratch f32 [B, H, S]: sum_d out dout
  float scale = 1.0f;
  int64_t group = 1, head_offset = 0;
};
inline int64_t attention_pairs(const ConstTensorView& q) {
  return q.dim(0) * q.dim(2) * (q.dim(1) * (q.dim(1) + 1) / 2);
}
inline int64_t flops(const AttentionForward& a) { return 4 * attention_pairs(a.q) * a.q.dim(3); }
inline int64_t flops(const AttentionBackward& a) { return 10 * attention_pairs(a.q) * a.q.dim(3); }

}  // namespace trainctl::kernels
