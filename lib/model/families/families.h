// lib/model/families/families.h -- what distinguishes one family from another. A new family touches this folder alone.
#pragma once

#include "model/model_config.h"

namespace trainctl {

enum class NormKind : uint8_t { layernorm, rmsnorm };
enum class Activation : uint8_t { gelu, gelu_tanh, swiglu };

struct Architecture {
  NormKind norm = NormKind::rmsnorm;
  Activation activation = Activation::swiglu;
  bool gated = true;         // swiglu: gate and up
  bool rotary = true;        // else a learned position table
  bool qkv_bias = false;     // on query, key and value projections
  bool output_bias = false;  // on attention output and feed-forward projections
  bool qk_norm = false;      // RMSNorm of each query and key head
};

// Throws Error{config} for an unknown family or an activation the family does not have.
Architecture architecture_of(const ModelConfig& config);

}  // namespace trainctl
