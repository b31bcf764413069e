// lib/model/model_config.cpp -- the keys of the "model" section.
#include "model/model_config.h"

namespace trainctl {
namespace {

constexpr double kMaxWidth = 1 << 24;
constexpr double kMaxTokens = (int64_t{1} << 31) - 1;

}  // namespace

void RopeConfig::describe(ConfigVisitor& v) {
  v.field("theta", theta, "base of the rotation frequencies", above(0).also_called({"rope_theta", "rotary_base"}));
  v.field("scaling", scaling, "how the context is extended", one_of({"none", "linear", "llama3", "yarn"}));
  v.field("factor", factor, "linear, llama3, yarn: context extension", at_least(1).also_called({"scaling_factor"}));
  v.field("low_freq_factor", low_freq_factor, "llama3: wavelengths above original_positions / this are scaled fully",
          above(0));
  v.field("high_freq_factor", high_freq_factor, "llama3: wavelengths below original_positions / this are kept",
          above(0));
  v.field("original_positions", original_positions, "llama3, yarn: context length before scaling",
          between(0, kMaxTokens).also_called({"original_max_position_embeddings"}));
  v.field("beta_fast", beta_fast, "yarn: rotations above which a frequency is kept", above(0));
  v.field("beta_slow", beta_slow, "yarn: rotations below which a frequency is scaled fully", above(0));
  v.field("attention_factor", attention_factor, "yarn: scale of queries and keys; default 0.1 ln(factor) + 1",
          above(0));
}

void ModelConfig::describe(ConfigVisitor& v) {
  v.field("family", family,
          "gpt2: learned positions, LayerNorm, biases; llama: RMSNorm, RoPE, SwiGLU; qwen2: llama with biases on q, k, "
          "v; qwen3: llama with q and k normalised",
          one_of({"gpt2", "llama", "qwen2", "qwen3"})
              .required()
              .not_built({"gpt_oss", "mixtral", "deepseek", "gemma", "mamba", "moe"})
              .also_called({"model_type", "arch", "architecture"}));
  v.field(
      "layers", layers, "transformer blocks",
      between(1, 100000).required().also_called({"num_layers", "n_layers", "n_layer", "num_hidden_layers", "depth"}));
  v.field("d_model", d_model, "width of the residual stream",
          between(1, kMaxWidth).required().also_called({"hidden_size", "hidden", "n_embd", "dim", "width"}));
  v.field("heads", heads, "query heads",
          between(1, 65536).required().also_called({"num_heads", "n_heads", "n_head", "num_attention_heads"}));
  v.field("kv_heads", kv_heads, "key and value heads, dividing heads; default heads",
          between(1, 65536).also_called({"num_kv_heads", "n_kv_heads", "num_key_value_heads", "num_query_groups"}));
  v.field("head_dim", head_dim, "width of a head; default d_model / heads",
          between(1, 65536).also_called({"kv_channels", "head_size"}));
  v.field("d_ff", d_ff, "width of the feed-forward block; default 4 d_model for gpt2, required for the others",
          between(1, kMaxWidth).also_called({"ffn_hidden_size", "intermediate_size", "hidden_dim", "n_inner", "ffn"}));
  v.field("vocab", vocab, "token ids; \"tokenizer\": as many as data.tokenizer has",
          between(1, kMaxTokens).with_word("tokenizer").also_called({"vocab_size", "padded_vocab_size", "n_vocab"}));
  v.field("max_positions", max_positions, "rows of gpt2's position table; 0: data.sequence_tokens",
          between(0, kMaxTokens)
              .also_called({"max_position_embeddings", "n_positions", "n_ctx", "block_size", "max_seq_len"}));
  v.field("tie_embeddings", tie_embeddings,
          "the output head is the token embedding; when absent: true for gpt2, false for the others",
          Rule{}.also_called({"tie_word_embeddings", "tied_embeddings", "share_embeddings"}));
  v.field("activation", activation, "gelu_tanh or gelu for gpt2 (default gelu_tanh), swiglu for the others",
          one_of({"gelu_tanh", "gelu", "swiglu"})
              .not_built({"relu", "relu2", "geglu", "silu"})
              .also_called({"hidden_act", "activation_function"}));
  v.field("norm_eps", norm_eps, "added to the variance in LayerNorm and RMSNorm",
          above(0).also_called({"rms_norm_eps", "layer_norm_epsilon", "layernorm_epsilon"}));
  v.field("dropout", dropout, "on the embedding output and on each residual branch",
          from_to_below(0, 1).also_called({"hidden_dropout", "resid_pdrop", "dropout_rate"}));
  v.field("param_dtype", param_dtype, "stored weights",
          one_of({"f32", "bf16"}).not_built({"fp16", "f16", "fp8"}).also_called({"params_dtype", "dtype"}));
  v.field("init_std", init_std, "initial weights; outputs into the residual stream use init_std / sqrt(2 layers)",
          above(0).also_called({"init_method_std", "initializer_range"}));
  v.field("rope", rope, "rotary position embedding; not for gpt2, which learns its positions",
          Rule{}
              .also_called({"rope_scaling", "rotary"})
              .only_if(family != "gpt2", "gpt2 has learned positions (max_positions) and no rotary embedding"));
}

}  // namespace trainctl
