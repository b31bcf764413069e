// lib/model/model_config.h -- the recipe's "model" section: architecture only, no layout, no kernels.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/config_visitor.h"

namespace trainctl {

struct RopeConfig {
  double theta = 10000.0;
  std::string scaling = "none";            // none | linear | llama3 | yarn
  double factor = 1.0;                     // context extension
  double low_freq_factor = 1.0;            // llama3
  double high_freq_factor = 4.0;           // llama3
  int64_t original_positions = 0;          // llama3, yarn: context length before scaling
  double beta_fast = 32.0;                 // yarn
  double beta_slow = 1.0;                  // yarn
  std::optional<double> attention_factor;  // yarn; default 0.1 ln(factor) + 1
  void describe(ConfigVisitor& v);
};

struct ModelConfig {
  std::string family = "llama";  // gpt2 | llama | qwen2 | qwen3
  int64_t layers = 0, d_model = 0, heads = 0;
  std::optional<int64_t> kv_heads;  // default heads
  std::optional<int64_t> head_dim;  // default d_model / heads
  std::optional<int64_t> d_ff;      // default 4 d_model (gpt2)
  IntOrWord vocab;                  // or "tokenizer": taken from data.tokenizer
  int64_t max_positions = 0;        // 0: data.sequence_tokens; the size of gpt2's position table
  bool tie_embeddings = false;
  std::optional<std::string> activation;  // gelu_tanh | gelu | swiglu; default by family
  double norm_eps = 1e-5;
  double dropout = 0.0;             // on the embedding output and on each residual branch
  std::string param_dtype = "f32";  // stored weights: f32 | bf16
  double init_std = 0.02;           // residual outputs use init_std / sqrt(2 layers)
  RopeConfig rope;
  void describe(ConfigVisitor& v);
};

}  // namespace trainctl
