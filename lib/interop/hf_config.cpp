// lib/interop/hf_config.cpp -- the model section in Hugging Face's words.
#include "interop/hf_config.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace trainctl {
namespace {

using nlohmann::ordered_json;

std::string architecture_name(const std::string& family) {
  if (family == "gpt2") return "GPT2LMHeadModel";
  if (family == "llama") return "LlamaForCausalLM";
  if (family == "qwen2") return "Qwen2ForCausalLM";
  if (family == "qwen3") return "Qwen3ForCausalLM";
  fail(ErrorKind::checkpoint,
       fmt::format("family \"{}\" has no Hugging Face form here; known: gpt2, llama, qwen2, qwen3", family));
}

ordered_json rope_scaling(const RopeConfig& r) {
  if (r.scaling == "none") return nullptr;
  ordered_json scaling = {{"rope_type", r.scaling}, {"type", r.scaling}, {"factor", r.factor}};
  if (r.scaling == "linear") return scaling;
  scaling["original_max_position_embeddings"] = r.original_positions;
  if (r.scaling == "llama3") {
    scaling["low_freq_factor"] = r.low_freq_factor;
    scaling["high_freq_factor"] = r.high_freq_factor;
  } else {
    scaling["beta_fast"] = r.beta_fast;
    scaling["beta_slow"] = r.beta_slow;
    if (r.attention_factor) scaling["attention_factor"] = *r.attention_factor;
  }
  return scaling;
}

// For YaRN some releases of transformers take max_position_embeddings / original_max_position_embeddings for the
// factor, others read "factor": both must say the same. With rotary positions nothing else follows from this field.
int64_t max_position_embeddings(const ModelConfig& m) {
  if (m.family == "gpt2" || m.rope.scaling != "yarn") return m.max_positions;
  const double stretched = m.rope.factor * static_cast<double>(m.rope.original_positions);
  if (stretched != std::floor(stretched) || stretched < 1 || stretched > 1e15)
    fail(ErrorKind::checkpoint,
         fmt::format("model.rope: factor {} times original_positions {} is {}, not a whole number; releases of "
                     "transformers that take YaRN's factor as the quotient of two lengths would compute another model",
                     m.rope.factor, m.rope.original_positions, stretched));
  return static_cast<int64_t>(stretched);
}

void gpt2_fields(const ModelConfig& m, ordered_json& c) {
  c["n_embd"] = m.d_model;
  c["n_layer"] = m.layers;
  c["n_head"] = m.heads;
  c["n_inner"] = m.d_ff.value();
  c["n_positions"] = m.max_positions;
  // gelu_new is the tanh form; "gelu" the exact one.
  c["activation_function"] = m.activation.value_or("gelu_tanh") == "gelu" ? "gelu" : "gelu_new";
  c["layer_norm_epsilon"] = m.norm_eps;
  c["embd_pdrop"] = m.dropout;
  c["resid_pdrop"] = m.dropout;
  c["attn_pdrop"] = 0.0;
  c["scale_attn_weights"] = true;
  c["scale_attn_by_inverse_layer_idx"] = false;
  c["reorder_and_upcast_attn"] = false;
  c["add_cross_attention"] = false;
}

void llama_fields(const ModelConfig& m, ordered_json& c) {
  c["hidden_size"] = m.d_model;
  c["num_hidden_layers"] = m.layers;
  c["num_attention_heads"] = m.heads;
  c["num_key_value_heads"] = m.kv_heads.value();
  c["head_dim"] = m.head_dim.value();
  c["intermediate_size"] = m.d_ff.value();
  c["max_position_embeddings"] = max_position_embeddings(m);
  c["hidden_act"] = "silu";
  c["rms_norm_eps"] = m.norm_eps;
  c["rope_theta"] = m.rope.theta;
  c["rope_scaling"] = rope_scaling(m.rope);
  c["attention_dropout"] = 0.0;
  if (m.family == "llama") {
    c["attention_bias"] = false;
    c["mlp_bias"] = false;
    c["pretraining_tp"] = 1;
    return;
  }
  if (m.family == "qwen3") c["attention_bias"] = false;  // Qwen-2 has its biases without a flag
  c["use_sliding_window"] = false;
  c["sliding_window"] = nullptr;
  c["max_window_layers"] = m.layers;
}

}  // namespace

ordered_json hf_config(const ModelConfig& model, const ordered_json& special_ids, DType dtype) {
  ordered_json c;
  c["architectures"] = {architecture_name(model.family)};
  c["model_type"] = model.family;
  c["vocab_size"] = model.vocab.value.value();
  if (model.family == "gpt2")
    gpt2_fields(model, c);
  else
    llama_fields(model, c);
  c["tie_word_embeddings"] = model.tie_embeddings;
  c["initializer_range"] = model.init_std;
  c["torch_dtype"] = dtype == DType::bf16 ? "bfloat16" : "float32";
  c["use_cache"] = true;
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) c[key] = special_ids.at(key);
  return c;
}

ordered_json hf_generation_config(const ordered_json& special_ids) {
  ordered_json c;
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) c[key] = special_ids.at(key);
  c["do_sample"] = false;
  c["use_cache"] = true;
  return c;
}

}  // namespace trainctl
