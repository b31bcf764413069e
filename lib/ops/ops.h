// lib/ops/ops.h -- the differentiable ops. Legend: T tokens (rows), D d_model, H heads, K key/value heads, C head_dim,
// F d_ff, V vocabulary rows of this shard. Activations have the compute dtype (f32 or bf16); parameter gradients are
// f32 and accumulated. Weights outlive the tape.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "autograd/parameter.h"
#include "autograd/tape.h"

namespace trainctl {

// y [T, N] = x [T, K] weight[N, K]^T (+ bias [N]).
Tensor linear(Tape& tape, const Tensor& x, const Weight& weight, const Weight& bias = {});

// y [T, N] = x [T, N] + bias [N]: the bias of a row-parallel product, added once after the partial sums met.
Tensor add_bias(Tape& tape, const Tensor& x, const Weight& bias);

// y [T, D]: rows of weight [V, D]; ids i32 [T]; rows outside [row_begin, row_begin + V) give zeros.
Tensor embedding(Tape& tape, const Tensor& ids, const Weight& weight, int64_t row_begin);

// Over the last dimension of x [T, D].
Tensor rmsnorm(Tape& tape, const Tensor& x, const Weight& gain, float eps);
Tensor layernorm(Tape& tape, const Tensor& x, const Weight& gain, const Weight& bias, float eps);

// A fused projection [T, (H + 2K) C]: query, key and value heads side by side.
struct HeadLayout {
  int64_t batch = 0, sequence = 0;  // T = batch * sequence
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  int64_t group = 1;        // query heads per key/value head, in the whole model
  int64_t head_offset = 0;  // this shard's first query head, modulo group
  int64_t width() const { return (heads + 2 * kv_heads) * head_dim; }
};

// RMSNorm of every query head and every key head of qkv, with gains [C]; values pass through.
Tensor qk_norm(Tape& tape, const Tensor& qkv, const HeadLayout& layout, const Weight& q_gain, const Weight& k_gain,
               float eps);

// Cosines and sines [P, C/2] f32, already times the attention factor.
struct RopeTable {
  Tensor cosine, sine;
};
// Rotates query and key heads of qkv in place when nobody else holds it, else in a copy. positions i32 [T].
Tensor rope(Tape& tape, const Tensor& qkv, const HeadLayout& layout, const Tensor& positions, const RopeTable& table);

// out [T, H C]; causal; document_start i32 [B, S] or empty; scale 1/sqrt(C).
Tensor attention(Tape& tape, const Tensor& qkv, const HeadLayout& layout, const Tensor& document_start);

Tensor gelu(Tape& tape, const Tensor& x, bool tanh_form);
Tensor swiglu(Tape& tape, const Tensor& gate_up);  // [T, 2F] -> [T, F]

Tensor add(Tape& tape, const Tensor& a, const Tensor& b);

// Which random numbers a dropout draws: a function of the run's seed, the step, the place and the global token.
struct DropoutKey {
  double probability = 0;
  uint64_t key = 0, site = 0;
  int64_t first_token = 0;  // global index, within the step, of row 0
};
Tensor dropout(Tape& tape, const Tensor& x, const DropoutKey& key);  // x itself when probability is 0

// How the shards of a vocabulary meet inside cross_entropy; the identity on one rank. In place, f32 [T].
class VocabReducer {
 public:
  virtual ~VocabReducer() = default;
  virtual void maximum(const Tensor&, Context&) {}
  virtual void sum(const Tensor&, Context&) {}
};

struct CrossEntropyOptions {
  int64_t column_begin = 0;                 // global id of the shard's first row
  float scale = 1.0f;                       // of the gradient: 1 / counted tokens of the whole global batch
  int64_t chunk_bytes = int64_t{96} << 20;  // logits held at once
};
// Adds the summed loss of counted tokens to loss_sum (f64 [1]). Logits exist for a chunk of rows at a time; gradients
// are taken while a chunk is there, so the weight gradient is accumulated in the forward pass and backward hands out
// dx. x [T, D], labels i32 [T] (-1: not counted). The returned tensor stands for the loss on the tape: pass it to
// backward().
Tensor linear_cross_entropy(Tape& tape, const Tensor& x, const Weight& weight, const Tensor& labels,
                            VocabReducer& reducer, const Tensor& loss_sum, const CrossEntropyOptions& options);

// y = f(x), saving x alone: f runs again in the backward pass. f must be a pure function of x and of parameters.
Tensor recompute(Tape& tape, const Tensor& x, const std::function<Tensor(Tape&, const Tensor&)>& f);

}  // namespace trainctl
