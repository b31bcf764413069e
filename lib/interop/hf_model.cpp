// lib/interop/hf_model.cpp -- which fields of config.json are used, must have one value, or mean nothing here.
#include "interop/hf_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/config_io.h"
#include "base/error.h"
#include "checkpoint/json_fields.h"
#include "interop/hf_source.h"
#include "recipe/recipe.h"

namespace trainctl {
namespace {

using nlohmann::json;

// Fields of the base class and of these families that no result depends on.
const std::set<std::string> kMeansNothing = {"_name_or_path",
                                             "architectures",
                                             "model_type",
                                             "transformers_version",
                                             "torch_dtype",
                                             "dtype",
                                             "use_cache",
                                             "initializer_range",
                                             "bos_token_id",
                                             "eos_token_id",
                                             "pad_token_id",
                                             "sep_token_id",
                                             "decoder_start_token_id",
                                             "output_hidden_states",
                                             "output_attentions",
                                             "output_scores",
                                             "return_dict",
                                             "return_dict_in_generate",
                                             "task_specific_params",
                                             "problem_type",
                                             "id2label",
                                             "label2id",
                                             "finetuning_task",
                                             "tokenizer_class",
                                             "prefix",
                                             "torchscript",
                                             "use_bfloat16",
                                             "tf_legacy_loss",
                                             "pretraining_tp",
                                             "max_length",
                                             "min_length",
                                             "do_sample",
                                             "early_stopping",
                                             "num_beams",
                                             "num_beam_groups",
                                             "diversity_penalty",
                                             "temperature",
                                             "top_k",
                                             "top_p",
                                             "typical_p",
                                             "repetition_penalty",
                                             "length_penalty",
                                             "no_repeat_ngram_size",
                                             "encoder_no_repeat_ngram_size",
                                             "num_return_sequences",
                                             "bad_words_ids",
                                             "suppress_tokens",
                                             "begin_suppress_tokens",
                                             "exponential_decay_length_penalty",
                                             "forced_bos_token_id",
                                             "forced_eos_token_id",
                                             "remove_invalid_values",
                                             "summary_activation",
                                             "summary_first_dropout",
                                             "summary_proj_to_labels",
                                             "summary_type",
                                             "summary_use_proj",
                                             "_attn_implementation",
                                             "is_decoder",
                                             "_attn_implementation_autoset",
                                             "attn_implementation",
                                             "n_ctx",
                                             "max_window_layers",
                                             "chunk_size_feed_forward",
                                             "reorder_and_upcast_attn",
                                             "unsloth_version",
                                             "unsloth_fixed"};

class Reader {
 public:
  Reader(const json& config, const std::vector<std::string>& harmless)
      : config_(config), known_(kMeansNothing.begin(), kMeansNothing.end()) {
    known_.insert(harmless.begin(), harmless.end());
  }

  void fault(const std::string& what) { faults_.push_back(what); }
  void note(const std::string& what) { notes_.push_back(what); }

  // Null counts as absent, as the classes of transformers take it.
  const json* find(const std::string& key) {
    known_.insert(key);
    const auto found = config_.find(key);
    return found == config_.end() || found->is_null() ? nullptr : &*found;
  }

  std::optional<int64_t> integer(const std::string& key) {
    const json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_number_integer() || (value->is_number_unsigned() && value->get<uint64_t>() > INT64_MAX)) {
      fault(fmt::format("{} = {} is no integer", key, clipped(value->dump())));
      return std::nullopt;
    }
    return value->get<int64_t>();
  }
  int64_t required(const std::string& key) {
    const bool there = find(key) != nullptr;
    if (!there) fault(fmt::format("{} is missing", key));
    return there ? integer(key).value_or(0) : 0;
  }
  double number(const std::string& key, double otherwise) { return number_in(config_, key, key, otherwise); }
  bool flag(const std::string& key, bool otherwise) {
    const json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_boolean()) fault(fmt::format("{} = {} is neither true nor false", key, clipped(value->dump())));
    return value->is_boolean() ? value->get<bool>() : otherwise;
  }
  std::string word(const std::string& key, const std::string& otherwise) {
    const json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_string()) fault(fmt::format("{} = {} is no text", key, clipped(value->dump())));
    return value->is_string() ? value->get<std::string>() : otherwise;
  }
  // A field that changes results and has one value here.
  void must_be(const std::string& key, const json& value, const std::string& why) {
    const json* found = find(key);
    if (found != nullptr && *found != value)
      fault(fmt::format("{} = {} is not supported: {}", key, clipped(found->dump()), why));
  }

  RopeConfig rope(int64_t max_positions);

  void refuse_unknown() {
    for (const auto& [key, value] : config_.items())
      if (!known_.contains(key) && !value.is_null())
        fault(fmt::format("{} = {} is not a field this version knows; if no result depends on it, pass --harmless {}",
                          key, clipped(value.dump()), key));
  }
  const std::vector<std::string>& faults() const { return faults_; }
  std::vector<std::string>& notes() { return notes_; }

 private:
  double number_in(const json& object, const std::string& key, const std::string& shown, double otherwise) {
    if (&object == &config_) known_.insert(key);
    const auto found = object.find(key);
    if (found == object.end() || found->is_null()) return otherwise;
    if (found->is_number() && std::isfinite(found->get<double>())) return found->get<double>();
    fault(fmt::format("{} = {} is no number", shown, clipped(found->dump())));
    return otherwise;
  }
  void read_scaling(const json& scaling, const std::string& where, int64_t max_positions, RopeConfig& rope);

  const json& config_;
  std::set<std::string> known_;
  std::vector<std::string> faults_, notes_;
};

// transformers 4: rope_theta and rope_scaling; 5: both in rope_parameters.
RopeConfig Reader::rope(int64_t max_positions) {
  RopeConfig rope;
  rope.theta = number("rope_theta", rope.theta);
  must_be("partial_rotary_factor", 1.0, "every channel of a head is rotated here");
  must_be("rope_interleaved", false, "channel j pairs with channel j + head_dim / 2 here");
  const json* scaling = find("rope_scaling");
  const json* parameters = find("rope_parameters");
  if (scaling != nullptr && parameters != nullptr && *scaling != *parameters)
    fault("rope_scaling and rope_parameters are both there and differ; remove the one that is not meant");
  for (const auto& [object, where] : {std::pair(parameters, "rope_parameters"), std::pair(scaling, "rope_scaling")}) {
    if (object == nullptr) continue;
    if (object->is_object())
      read_scaling(*object, where, max_positions, rope);
    else
      fault(fmt::format("{} = {} is no object", where, clipped(object->dump())));
    break;
  }
  return rope;
}

void Reader::read_scaling(const json& scaling, const std::string& where, int64_t max_positions, RopeConfig& rope) {
  std::set<std::string> used = {"rope_type", "type", "finetuned"};
  const auto number_of = [&](const std::string& key, double otherwise) {
    used.insert(key);
    return number_in(scaling, key, where + "." + key, otherwise);
  };
  const auto positions = [&](int64_t otherwise) -> int64_t {
    const double value = number_of("original_max_position_embeddings", static_cast<double>(otherwise));
    if (value == std::floor(value) && value >= 1 && value < 9e15) return static_cast<int64_t>(value);
    fault(fmt::format("{}.original_max_position_embeddings = {} is no number of positions", where, value));
    return otherwise;
  };
  rope.theta = number_of("rope_theta", rope.theta);
  const auto text = [&](const char* key) {
    const auto found = scaling.find(key);
    return found != scaling.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  const std::string kind = !text("rope_type").empty() ? text("rope_type") : text("type");
  if (!text("rope_type").empty() && !text("type").empty() && text("rope_type") != text("type"))
    fault(fmt::format("{}: rope_type \"{}\" and type \"{}\" contradict each other", where, text("rope_type"),
                      text("type")));
  if (kind == "linear" || kind == "llama3" || kind == "yarn") {
    rope.scaling = kind;
    if (!scaling.contains("factor")) fault(where + ".factor is missing");
    rope.factor = number_of("factor", 1.0);
  } else if (kind != "default") {
    fault(fmt::format("{} of type {} is not supported; supported: default, linear, llama3, yarn", where,
                      in_quotes(kind)));
    return;
  }
  if (kind == "llama3") {
    for (const char* key : {"low_freq_factor", "high_freq_factor", "original_max_position_embeddings"})
      if (!scaling.contains(key)) fault(fmt::format("{}.{} is missing", where, key));
    rope.low_freq_factor = number_of("low_freq_factor", 1.0);
    rope.high_freq_factor = number_of("high_freq_factor", 4.0);
    rope.original_positions = positions(8192);
  }
  if (kind == "yarn") {
    rope.original_positions = positions(max_positions);
    rope.beta_fast = number_of("beta_fast", 32.0);
    rope.beta_slow = number_of("beta_slow", 1.0);
    rope.attention_factor = 0.1 * std::log(std::max(rope.factor, 1.0)) + 1;
    rope.attention_factor = number_of("attention_factor", *rope.attention_factor);
    const double quotient = static_cast<double>(max_positions) / static_cast<double>(rope.original_positions);
    if (scaling.contains("original_max_position_embeddings") && quotient != rope.factor)
      fault(
          fmt::format("{}: factor {} is not max_position_embeddings {} / original_max_position_embeddings {} = {}; "
                      "releases of transformers read YaRN's factor from one or the other, so make them agree",
                      where, rope.factor, max_positions, rope.original_positions, quotient));
    for (const char* key : {"mscale", "mscale_all_dim"})
      if (number_of(key, 0.0) != 0) fault(fmt::format("{}.{} is not supported; give attention_factor", where, key));
    used.insert("truncate");
    if (scaling.contains("truncate") && scaling["truncate"] != true)
      fault(where + ".truncate other than true is not supported: the borders are whole channels here");
  }
  for (const auto& [key, value] : scaling.items())
    if (!used.contains(key) && !value.is_null())
      fault(fmt::format("{}.{} = {} is not supported with type \"{}\"", where, key, clipped(value.dump()), kind));
}

void read_gpt2(Reader& r, ModelConfig& m) {
  m.d_model = r.required("n_embd");
  m.layers = r.required("n_layer");
  m.heads = r.required("n_head");
  m.max_positions = r.required("n_positions");
  m.kv_heads = m.heads;
  m.head_dim = m.heads > 0 ? m.d_model / m.heads : 0;
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

void read_llama_like(Reader& r, ModelConfig& m) {
  m.d_model = r.required("hidden_size");
  m.layers = r.required("num_hidden_layers");
  m.heads = r.required("num_attention_heads");
  m.d_ff = r.required("intermediate_size");
  m.max_positions = r.required("max_position_embeddings");
  m.kv_heads =
      m.family == "llama" ? r.integer("num_key_value_heads").value_or(m.heads) : r.required("num_key_value_heads");
  m.head_dim = m.family == "qwen3" ? r.required("head_dim")
                                   : r.integer("head_dim").value_or(m.heads > 0 ? m.d_model / m.heads : 0);
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

// The rules of the recipe for this model, with what else a recipe needs.
void check_rules(Reader& r, const ModelConfig& m, const std::string& section) {
  const std::string text = fmt::format(
      R"({{"name":"import","model":{},"data":{{"train":[{{"path":"x"}}],"sequence_tokens":1}},"parallelism":{{}},
          "optimizer":{{"lr":1}},"runtime":{{"steps":1,"global_batch_size":1}},"checkpoint":{{}}}})",
      section);
  try {
    load_recipe_text(text, "config.json as a model section");
  } catch (const Error& e) {
    r.fault(e.what());
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
  Reader r(config, harmless);
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
