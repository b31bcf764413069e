// lib/interop/hf_fields.cpp -- reading fields, rotary positions among them; what means nothing.
#include "interop/hf_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/json_node.h"

namespace trainctl {
namespace {

// Fields of the base class and of these families that no result depends on.
const std::set<std::string> kMeansNothing = {"_name_or_path",
                                             "architectures",
                                             "model_type",
                                             "transformers_version",
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

}  // namespace

HfFields::HfFields(const json& config, const std::vector<std::string>& harmless)
    : config_(config), known_(kMeansNothing.begin(), kMeansNothing.end()) {
  known_.insert(harmless.begin(), harmless.end());
}

const nlohmann::json* HfFields::find(const std::string& key) {
  known_.insert(key);
  const auto found = config_.find(key);
  return found == config_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<int64_t> HfFields::integer(const std::string& key) {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_integer() || (value->is_number_unsigned() && value->get<uint64_t>() > INT64_MAX)) {
    fault(fmt::format("{} = {} is no integer", key, clipped(value->dump())));
    return std::nullopt;
  }
  return value->get<int64_t>();
}

int64_t HfFields::required(const std::string& key) {
  const bool there = find(key) != nullptr;
  if (!there) fault(fmt::format("{} is missing", key));
  return there ? integer(key).value_or(0) : 0;
}

double HfFields::number(const std::string& key, double otherwise) { return number_in(config_, key, key, otherwise); }

bool HfFields::flag(const std::string& key, bool otherwise) {
  const json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) fault(fmt::format("{} = {} is neither true nor false", key, clipped(value->dump())));
  return value->is_boolean() ? value->get<bool>() : otherwise;
}

std::string HfFields::word(const std::string& key, const std::string& otherwise) {
  const json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_string()) fault(fmt::format("{} = {} is no text", key, clipped(value->dump())));
  return value->is_string() ? value->get<std::string>() : otherwise;
}

void HfFields::must_be(const std::string& key, const json& value, const std::string& why) {
  const json* found = find(key);
  if (found != nullptr && *found != value)
    fault(fmt::format("{} = {} is not supported: {}", key, clipped(found->dump()), why));
}

void HfFields::refuse_unknown() {
  for (const auto& [key, value] : config_.items())
    if (!known_.contains(key) && !value.is_null())
      fault(fmt::format("{} = {} is not a field this version knows; if no result depends on it, pass --harmless {}",
                        key, clipped(value.dump()), key));
}

double HfFields::number_in(const json& object, const std::string& key, const std::string& shown, double otherwise) {
  if (&object == &config_) known_.insert(key);
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return otherwise;
  if (found->is_number() && std::isfinite(found->get<double>())) return found->get<double>();
  fault(fmt::format("{} = {} is no number", shown, clipped(found->dump())));
  return otherwise;
}

// transformers 4: rope_theta and rope_scaling; 5: both in rope_parameters.
RopeConfig HfFields::rope(int64_t max_positions) {
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

void HfFields::read_scaling(const json& scaling, const std::string& where, int64_t max_positions, RopeConfig& rope) {
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

}  // namespace trainctl
