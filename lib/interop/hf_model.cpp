// lib/interop/hf_model.cpp -- which fields of config.json are used, must have one value, or mean nothing here.
#include "interop/hf_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/config_io.h"
#include "base/error.h"
#include "checkpoint/json_fields.h"
#include "interop/hf_fields.h"
#include "interop/hf_source.h"
#include "recipe/recipe.h"
#include "recipe/rules.h"

namespace trainctl {
namespace {

using nlohmann::json;

// The width of a head where the file gives none.
int64_t default_head_dim(HfFields& r, const ModelConfig& m, std::string_view width, std::string_view heads) {
  if (m.heads < 1 || m.d_model < 1 || m.d_model > INT64_MAX - m.heads) return 0;  // the rules of the recipe tell
  if (m.d_model % m.heads != 0)
    r.fault(fmt::format("{} = {} is not a multiple of {} = {}, so a head has no whole width; the nearest legal {}: {}",
                        width, m.d_model, heads, m.heads, width, nearest_multiples(m.heads, m.d_model)));
  return m.d_model / m.heads;
}

// What the weights were computed in; what they are stored in, their files say. Others stand for quantized weights.
void check_dtype(HfFields& r) {
  for (const char* key : {"torch_dtype", "dtype"}) {
    std::string dtype = r.word(key, "float32");
    constexpr std::string_view kModule = "torch.";
    if (dtype.starts_with(kModule)) dtype.erase(0, kModule.size());
    if (dtype != "float32" && dtype != "bfloat16" && dtype != "float16")
      r.fault(
          fmt::format("{} = {} is not supported: weights are read in float32, bfloat16 and float16; save the model "
                      "in one of these",
                      key, in_quotes(dtype)));
  }
}

void read_gpt2(HfFields& r, ModelConfig& m) {
  m.d_model = r.required("n_embd");
  m.layers = r.required("n_layer");
  m.heads = r.required("n_head");
  m.max_positions = r.required("n_positions");
  m.kv_heads = m.heads;
  m.head_dim = default_head_dim(r, m, "n_embd", "n_head");
  m.d_ff = r.integer("n_inner").value_or(m.d_model <= INT64_MAX / 4 ? 4 * m.d_model : 0);
  m.norm_eps = r.number("layer_norm_epsilon", 1e-5);
  m.tie_embeddings = r.flag("tie_word_embeddings", true);
  const std::string activation = r.word("activation_function", "gelu_new");
  m.activation = activation == "gelu" ? "gelu" : "gelu_tanh";
  if (activation != "gelu" && activation != "gelu_new" && activation != "gelu_pytorch_tanh")
    r.fault(fmt::format("activation_function = {} is not supported; supported: gelu, gelu_new, gelu_pytorch_tanh",
                        in_quotes(activation)));
  r.must_be("scale_attn_weights", true, "scores are divided by sqrt(head_dim) here");
  r.must_be("scale_attn_by_inverse_layer_idx", false, "scores do not depend on the layer's number here");
  r.must_be("add_cross_attention", false, "there is no encoder here");
  const double embedding = r.number("embd_pdrop", 0.1), residual = r.number("resid_pdrop", 0.1);
  const double attention = r.number("attn_pdrop", 0.1);
  if (embedding == residual)
    m.dropout = residual;
  else
    r.note(fmt::format("embd_pdrop {} and resid_pdrop {} differ; the recipe's one dropout is left at 0", embedding,
                       residual));
  if (attention != 0) r.note(fmt::format("attn_pdrop {}: there is no dropout on attention weights here", attention));
}

void read_llama_like(HfFields& r, ModelConfig& m) {
  m.d_model = r.required("hidden_size");
  m.layers = r.required("num_hidden_layers");
  m.heads = r.required("num_attention_heads");
  m.d_ff = r.required("intermediate_size");
  m.max_positions = r.required("max_position_embeddings");
  m.kv_heads =
      m.family == "llama" ? r.integer("num_key_value_heads").value_or(m.heads) : r.required("num_key_value_heads");
  if (m.family == "qwen3")
    m.head_dim = r.required("head_dim");
  else if (r.find("head_dim") != nullptr)
    m.head_dim = r.integer("head_dim").value_or(0);
  else
    m.head_dim = default_head_dim(r, m, "hidden_size", "num_attention_heads");
  m.norm_eps = r.number("rms_norm_eps", 1e-6);
  m.tie_embeddings = r.flag("tie_word_embeddings", false);
  m.activation = "swiglu";
  const std::string activation = r.word("hidden_act", "silu");
  if (activation != "silu" && activation != "swish")
    r.fault(
        fmt::format("hidden_act = {} is not supported: the {} family has silu here", in_quotes(activation), m.family));
  m.rope = r.rope(m.max_positions);
  if (m.family != "qwen2")
    r.must_be("attention_bias", false, m.family + " has no biases here; qwen2 has them on q, k, v");
  if (m.family == "llama") {
    r.must_be("mlp_bias", false, "the feed-forward layers have no biases here");
    r.must_be("sliding_window", json(), "every token attends to all before it here");
  } else {
    r.must_be("use_sliding_window", false, "every token attends to all before it here");
    r.find("sliding_window");  // without use_sliding_window it says nothing
  }
  if (const json* types = r.find("layer_types"))
    for (const json& type : types->is_array() ? *types : json::array({*types}))
      if (type != "full_attention") {
        r.fault(fmt::format("layer_types has {}; only full_attention is supported", clipped(type.dump())));
        break;
      }
  if (const double dropout = r.number("attention_dropout", 0); dropout != 0)
    r.note(fmt::format("attention_dropout {}: there is no dropout on attention weights here", dropout));
}

// The rules speak of the recipe's keys; which fields of the file these are: "; model.heads is n_head".
std::string fields_named_in(const std::string& text, const std::string& family) {
  struct Names {
    const char *key, *llama, *gpt2;
  };
  std::string named;
  for (const auto& [key, llama, gpt2] : {Names{"d_model", "hidden_size", "n_embd"},
                                         {"layers", "num_hidden_layers", "n_layer"},
                                         {"heads", "num_attention_heads", "n_head"},
                                         {"kv_heads", "num_key_value_heads", "n_head"},
                                         {"head_dim", "head_dim", "n_embd / n_head"},
                                         {"d_ff", "intermediate_size", "n_inner"},
                                         {"vocab", "vocab_size", "vocab_size"},
                                         {"norm_eps", "rms_norm_eps", "layer_norm_epsilon"},
                                         {"init_std", "initializer_range", "initializer_range"},
                                         {"max_positions", "max_position_embeddings", "n_positions"},
                                         {"dropout", "", "resid_pdrop"}})
    if (text.find(fmt::format("model.{}: ", key)) != std::string::npos)
      named += fmt::format("; model.{} is {}", key, family == "gpt2" ? gpt2 : llama);
  return named;
}

// The rules of the recipe for this model, with what else a recipe needs.
void check_rules(HfFields& r, const ModelConfig& m, const std::string& section) {
  const std::string text = fmt::format(
      R"({{"name":"import","model":{},"data":{{"train":[{{"path":"x"}}],"sequence_tokens":1}},"parallelism":{{}},
          "optimizer":{{"lr":1}},"runtime":{{"steps":1,"global_batch_size":1}},"checkpoint":{{}}}})",
      section);
  try {
    load_recipe_text(text, "config.json as a model section");
  } catch (const Error& e) {
    r.fault(e.what() + fields_named_in(e.what(), m.family));
    return;
  }
  if (m.max_positions < 1) r.fault(fmt::format("a model with {} positions is none", m.max_positions));
  const double widest =
      static_cast<double>(std::max({m.heads * *m.head_dim, *m.d_ff, *m.vocab.value, m.max_positions}));
  if (widest * static_cast<double>(m.d_model) > 4e18)
    r.fault("the model has tensors of more bytes than can be counted");
}

}  // namespace

HfModel hf_model(std::string_view text, const std::string& source, const std::vector<std::string>& harmless) {
  try {
    parse_checkpoint_json(text, source);  // strict: two values of one key would be two models
  } catch (const Error& e) {
    fail(ErrorKind::input, e.what());
  }
  const json config = json::parse(text, nullptr, false);
  if (!config.is_object()) fail(ErrorKind::input, fmt::format("{} is no JSON object", source));
  HfFields r(config, harmless);
  HfModel model;
  ModelConfig& m = model.config;
  m.family = r.word("model_type", "");
  const std::map<std::string, std::string> classes = {{"gpt2", "GPT2LMHeadModel"},
                                                      {"llama", "LlamaForCausalLM"},
                                                      {"qwen2", "Qwen2ForCausalLM"},
                                                      {"qwen3", "Qwen3ForCausalLM"}};
  const auto known = classes.find(m.family);
  if (known == classes.end())
    fail(ErrorKind::input, fmt::format("{}: model_type = {} is not supported; supported: gpt2, llama, qwen2, qwen3",
                                       source, in_quotes(m.family)));
  if (const json* names = r.find("architectures"))
    if (!names->is_array() || std::find(names->begin(), names->end(), known->second) == names->end())
      r.fault(fmt::format("architectures = {} does not hold {}: another head than the language model's",
                          clipped(names->dump()), known->second));
  r.must_be("quantization_config", json(), "weights are read in f32, bf16 and f16");
  check_dtype(r);
  r.must_be("is_encoder_decoder", false, "there is no encoder here");
  r.must_be("cross_attention_hidden_size", json(), "there is no encoder here");
  r.must_be("tie_encoder_decoder", false, "there is no encoder here");
  r.must_be("pruned_heads", json::object(), "every layer has the same heads here");
  r.must_be("auto_map", json(), "code that comes with a model is not run");
  m.vocab.value = r.required("vocab_size");
  if (m.family == "gpt2")
    read_gpt2(r, m);
  else
    read_llama_like(r, m);
  m.init_std = r.number("initializer_range", 0.02);
  if (!(m.init_std > 0)) m.init_std = 0.02;
  r.refuse_unknown();
  if (r.faults().empty()) check_rules(r, m, write_config(m).dump());
  if (!r.faults().empty()) fail(ErrorKind::input, listed(source + " cannot be imported:", r.faults()));
  json ids = json::object();
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    const json* value = r.find(key);
    ids[key] = value == nullptr ? json() : *value;
  }
  model.special_ids = ids.dump();
  model.notes = std::move(r.notes());
  return model;
}

}  // namespace trainctl
