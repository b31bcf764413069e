// lib/interop/hf_tensors.cpp -- the parameters of gpt2, llama, qwen2 and qwen3 under both names.
#include "interop/hf_tensors.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"

namespace trainctl {
namespace {

class Listing {
 public:
  void same(std::string theirs, std::string ours, Shape shape) {
    tensors_.push_back({std::move(theirs), shape, {std::move(ours)}, {shape}, false});
  }
  // A linear layer's [out, in] kept as [in, out].
  void transposed(std::string theirs, std::vector<std::string> ours, Shape one) {
    const int64_t rows = one[0] * static_cast<int64_t>(ours.size());
    std::vector<Shape> shapes(ours.size(), one);
    tensors_.push_back({std::move(theirs), {one[1], rows}, std::move(ours), std::move(shapes), true});
  }
  void stacked(std::string theirs, std::vector<std::string> ours, Shape one) {
    const int64_t rows = one[0] * static_cast<int64_t>(ours.size());
    std::vector<Shape> shapes(ours.size(), one);
    tensors_.push_back({std::move(theirs), one.with(0, rows), std::move(ours), std::move(shapes), false});
  }
  std::vector<HfTensor> take() { return std::move(tensors_); }

 private:
  std::vector<HfTensor> tensors_;
};

void gpt2(const ModelConfig& m, Listing& list) {
  const int64_t d = m.d_model, ff = m.d_ff.value();
  list.same("transformer.wte.weight", "embedding.weight", {m.vocab.value.value(), d});
  list.same("transformer.wpe.weight", "position_embedding.weight", {m.max_positions, d});
  const auto norm = [&](const std::string& theirs, const std::string& ours) {
    list.same(theirs + ".weight", ours + ".weight", {d});
    list.same(theirs + ".bias", ours + ".bias", {d});
  };
  const auto conv1d = [&](const std::string& theirs, const std::string& ours, Shape out_in) {
    list.transposed(theirs + ".weight", {ours + ".weight"}, out_in);
    list.same(theirs + ".bias", ours + ".bias", {out_in[0]});
  };
  for (int64_t i = 0; i < m.layers; ++i) {
    const std::string theirs = fmt::format("transformer.h.{}.", i), ours = fmt::format("layers.{}.", i);
    const std::string qkv = ours + "attention.";
    norm(theirs + "ln_1", ours + "attention_norm");
    list.transposed(theirs + "attn.c_attn.weight", {qkv + "q.weight", qkv + "k.weight", qkv + "v.weight"}, {d, d});
    list.stacked(theirs + "attn.c_attn.bias", {qkv + "q.bias", qkv + "k.bias", qkv + "v.bias"}, {d});
    conv1d(theirs + "attn.c_proj", ours + "attention.o", {d, d});
    norm(theirs + "ln_2", ours + "ffn_norm");
    conv1d(theirs + "mlp.c_fc", ours + "ffn.up", {ff, d});
    conv1d(theirs + "mlp.c_proj", ours + "ffn.down", {d, ff});
  }
  norm("transformer.ln_f", "final_norm");
}

void llama_like(const ModelConfig& m, Listing& list) {
  const int64_t d = m.d_model, ff = m.d_ff.value(), head_dim = m.head_dim.value();
  const int64_t q = m.heads * head_dim, kv = m.kv_heads.value() * head_dim;
  list.same("model.embed_tokens.weight", "embedding.weight", {m.vocab.value.value(), d});
  for (int64_t i = 0; i < m.layers; ++i) {
    const std::string theirs = fmt::format("model.layers.{}.", i), ours = fmt::format("layers.{}.", i);
    const std::string attn = theirs + "self_attn.", attention = ours + "attention.";
    list.same(theirs + "input_layernorm.weight", ours + "attention_norm.weight", {d});
    for (const auto& [part, rows] : {std::pair("q", q), std::pair("k", kv), std::pair("v", kv)}) {
      list.same(fmt::format("{}{}_proj.weight", attn, part), fmt::format("{}{}.weight", attention, part), {rows, d});
      if (m.family == "qwen2")
        list.same(fmt::format("{}{}_proj.bias", attn, part), fmt::format("{}{}.bias", attention, part), {rows});
    }
    if (m.family == "qwen3") {
      list.same(attn + "q_norm.weight", attention + "q_norm.weight", {head_dim});
      list.same(attn + "k_norm.weight", attention + "k_norm.weight", {head_dim});
    }
    list.same(attn + "o_proj.weight", attention + "o.weight", {d, q});
    list.same(theirs + "post_attention_layernorm.weight", ours + "ffn_norm.weight", {d});
    list.same(theirs + "mlp.gate_proj.weight", ours + "ffn.gate.weight", {ff, d});
    list.same(theirs + "mlp.up_proj.weight", ours + "ffn.up.weight", {ff, d});
    list.same(theirs + "mlp.down_proj.weight", ours + "ffn.down.weight", {d, ff});
  }
  list.same("model.norm.weight", "final_norm.weight", {d});
}

}  // namespace

std::vector<HfTensor> hf_tensors(const ModelConfig& model) {
  ensure(model.kv_heads && model.head_dim && model.d_ff && model.vocab.value, "the model section is not resolved");
  Listing list;
  if (model.family == "gpt2")
    gpt2(model, list);
  else if (model.family == "llama" || model.family == "qwen2" || model.family == "qwen3")
    llama_like(model, list);
  else
    fail(ErrorKind::checkpoint, fmt::format("family \"{}\" has no Hugging Face form here; known: gpt2, llama, qwen2, "
                                            "qwen3",
                                            model.family));
  if (!model.tie_embeddings) list.same("lm_head.weight", "head.weight", {model.vocab.value.value(), model.d_model});
  return list.take();
}

}  // namespace trainctl
