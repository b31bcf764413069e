// lib/interop/gguf_model.cpp -- the four architectures.
#include "interop/gguf_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace trainctl {
namespace {

class Listing {
 public:
  void add(std::string theirs, std::vector<std::string> ours, Shape shape, int64_t interleaved_heads = 0) {
    tensors_.push_back({std::move(theirs), shape, std::move(ours), {}, interleaved_heads, shape.rank() == 1});
  }
  // A module's weight [out, in] and, with `bias`, its bias.
  void linear(const std::string& theirs, const std::vector<std::string>& ours, Shape shape, bool bias,
              int64_t interleaved_heads = 0) {
    std::vector<std::string> weights, biases;
    for (const std::string& module : ours) {
      weights.push_back(module + ".weight");
      biases.push_back(module + ".bias");
    }
    add(theirs + ".weight", std::move(weights), shape, interleaved_heads);
    if (bias) add(theirs + ".bias", std::move(biases), {shape[0]});
  }
  std::vector<GgufPart>& tensors() { return tensors_; }

 private:
  std::vector<GgufPart> tensors_;
};

void gpt2(const ModelConfig& m, Listing& list) {
  const int64_t d = m.d_model, ff = m.d_ff.value();
  const auto norm = [&](const std::string& theirs, const std::string& ours) {
    list.add(theirs + ".weight", {ours + ".weight"}, {d});
    list.add(theirs + ".bias", {ours + ".bias"}, {d});
  };
  list.add("token_embd.weight", {"embedding.weight"}, {m.vocab.value.value(), d});
  list.add("position_embd.weight", {"position_embedding.weight"}, {m.max_positions, d});
  list.tensors().back().always_f32 = true;
  for (int64_t i = 0; i < m.layers; ++i) {
    const std::string theirs = fmt::format("blk.{}.", i), ours = fmt::format("layers.{}.", i);
    const std::string attention = ours + "attention.";
    norm(theirs + "attn_norm", ours + "attention_norm");
    list.linear(theirs + "attn_qkv", {attention + "q", attention + "k", attention + "v"}, {3 * d, d}, true);
    list.linear(theirs + "attn_output", {attention + "o"}, {d, d}, true);
    norm(theirs + "ffn_norm", ours + "ffn_norm");
    list.linear(theirs + "ffn_up", {ours + "ffn.up"}, {ff, d}, true);
    list.linear(theirs + "ffn_down", {ours + "ffn.down"}, {d, ff}, true);
  }
  norm("output_norm", "final_norm");
}

// Frequency j is theta^(-2j / head_dim); llama3 scaling replaces it by s f + (1 - s) f / factor, so divides it by
// 1 / (s + (1 - s) / factor).
std::vector<float> rope_divisors(const RopeConfig& r, int64_t head_dim) {
  std::vector<float> divisors;
  for (int64_t j = 0; j < head_dim / 2; ++j) {
    const double frequency = std::pow(r.theta, -2.0 * static_cast<double>(j) / static_cast<double>(head_dim));
    const double turns = static_cast<double>(r.original_positions) * frequency / (2 * std::numbers::pi);
    const double s = std::clamp((turns - r.low_freq_factor) / (r.high_freq_factor - r.low_freq_factor), 0.0, 1.0);
    divisors.push_back(static_cast<float>(1 / (s + (1 - s) / r.factor)));
  }
  return divisors;
}

void llama_like(const ModelConfig& m, Listing& list) {
  const int64_t d = m.d_model, ff = m.d_ff.value(), head_dim = m.head_dim.value();
  const int64_t q = m.heads * head_dim, kv = m.kv_heads.value() * head_dim;
  const bool llama = m.family == "llama", bias = m.family == "qwen2";
  list.add("token_embd.weight", {"embedding.weight"}, {m.vocab.value.value(), d});
  if (m.rope.scaling == "llama3") {
    list.add("rope_freqs.weight", {}, {head_dim / 2});
    list.tensors().back().values = rope_divisors(m.rope, head_dim);
  }
  for (int64_t i = 0; i < m.layers; ++i) {
    const std::string theirs = fmt::format("blk.{}.", i), ours = fmt::format("layers.{}.", i);
    const std::string attention = ours + "attention.";
    list.add(theirs + "attn_norm.weight", {ours + "attention_norm.weight"}, {d});
    list.linear(theirs + "attn_q", {attention + "q"}, {q, d}, bias, llama ? m.heads : 0);
    list.linear(theirs + "attn_k", {attention + "k"}, {kv, d}, bias, llama ? m.kv_heads.value() : 0);
    list.linear(theirs + "attn_v", {attention + "v"}, {kv, d}, bias);
    if (m.family == "qwen3") {
      list.add(theirs + "attn_q_norm.weight", {attention + "q_norm.weight"}, {head_dim});
      list.add(theirs + "attn_k_norm.weight", {attention + "k_norm.weight"}, {head_dim});
    }
    list.linear(theirs + "attn_output", {attention + "o"}, {d, q}, false);
    list.add(theirs + "ffn_norm.weight", {ours + "ffn_norm.weight"}, {d});
    list.linear(theirs + "ffn_gate", {ours + "ffn.gate"}, {ff, d}, false);
    list.linear(theirs + "ffn_up", {ours + "ffn.up"}, {ff, d}, false);
    list.linear(theirs + "ffn_down", {ours + "ffn.down"}, {d, ff}, false);
  }
  list.add("output_norm.weight", {"final_norm.weight"}, {d});
}

[[noreturn]] void refuse(const std::string& what) { fail(ErrorKind::checkpoint, what); }

void put_rope_keys(const ModelConfig& m, GgufWriter& writer) {
  const RopeConfig& r = m.rope;
  const auto key = [&](const char* name) { return fmt::format("{}.rope.{}", m.family, name); };
  writer.u32(key("dimension_count"), static_cast<uint32_t>(m.head_dim.value()));
  writer.f32(key("freq_base"), static_cast<float>(r.theta));
  if (r.scaling == "llama3" && m.family != "llama")
    refuse(
        fmt::format("model.rope.scaling \"llama3\" with family \"{}\": llama.cpp reads its frequencies for the llama "
                    "architecture alone",
                    m.family));
  if (r.scaling != "linear" && r.scaling != "yarn") return;  // llama3: rope_freqs.weight
  writer.text(key("scaling.type"), r.scaling);
  writer.f32(key("scaling.factor"), static_cast<float>(r.factor));
  if (r.scaling == "linear") return;
  const RopeConfig usual;
  if (r.beta_fast != usual.beta_fast || r.beta_slow != usual.beta_slow)
    refuse(fmt::format("model.rope: beta_fast {} and beta_slow {}: releases of llama.cpp know 32 and 1 alone",
                       r.beta_fast, r.beta_slow));
  writer.u32(key("scaling.original_context_length"), static_cast<uint32_t>(r.original_positions));
  // llama.cpp multiplies this by 0.1 ln(factor) + 1.
  const double own = 0.1 * std::log(r.factor) + 1, wanted = r.attention_factor.value_or(own);
  if (wanted != own) writer.f32(key("scaling.attn_factor"), static_cast<float>(wanted / own));
}

}  // namespace

std::vector<GgufPart> gguf_tensors(const ModelConfig& model) {
  ensure(model.kv_heads && model.head_dim && model.d_ff && model.vocab.value, "the model section is not resolved");
  Listing list;
  if (model.family == "gpt2")
    gpt2(model, list);
  else
    llama_like(model, list);
  if (!model.tie_embeddings) list.add("output.weight", {"head.weight"}, {model.vocab.value.value(), model.d_model});
  return std::move(list.tensors());
}

void put_gguf_keys(const ModelConfig& m, GgufWriter& writer) {
  const auto number = [&](const char* name, int64_t value) {
    if (value > INT32_MAX) refuse(fmt::format("{} = {} is more than GGUF's 32-bit keys hold", name, value));
    writer.u32(fmt::format("{}.{}", m.family, name), static_cast<uint32_t>(value));
  };
  const bool gpt2 = m.family == "gpt2", yarn = m.rope.scaling == "yarn";
  if (gpt2 && m.activation.value_or("gelu_tanh") != "gelu_tanh")
    refuse("model.activation \"gelu\": llama.cpp computes GPT-2 with the tanh form of GELU alone");
  const double stretched = m.rope.factor * static_cast<double>(m.rope.original_positions);
  number("vocab_size", m.vocab.value.value());
  number("context_length",
         yarn && !gpt2 ? std::max(m.max_positions, static_cast<int64_t>(stretched)) : m.max_positions);
  number("embedding_length", m.d_model);
  number("block_count", m.layers);
  number("feed_forward_length", m.d_ff.value());
  number("attention.head_count", m.heads);
  number("attention.head_count_kv", m.kv_heads.value());
  if (gpt2) return writer.f32("gpt2.attention.layer_norm_epsilon", static_cast<float>(m.norm_eps));
  number("attention.key_length", m.head_dim.value());
  number("attention.value_length", m.head_dim.value());
  writer.f32(fmt::format("{}.attention.layer_norm_rms_epsilon", m.family), static_cast<float>(m.norm_eps));
  put_rope_keys(m, writer);
}

}  // namespace trainctl
