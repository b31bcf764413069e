// lib/interop/hf_model.h -- a Hugging Face config.json as the model section of a recipe.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "model/model_config.h"

namespace trainctl {

struct HfModel {
  ModelConfig config;              // resolved
  std::string special_ids;         // JSON {"bos_token_id", "eos_token_id", "pad_token_id"}, each null, an id or ids
  std::vector<std::string> notes;  // fields that are not taken over and change no logit
};

// gpt2, llama, qwen2, qwen3 as transformers 4.4x to 5.x write them. A field that is absent has the default of its
// class. Throws Error{input} with every fault: fields that are missing, of the wrong type or out of range; fields that
// change results and have no counterpart here (sliding windows, partial rotary, other activations, attention scaling,
// biases, quantization, RoPE types other than default, linear, llama3, yarn); fields that are not known at all, unless
// `harmless` names them.
HfModel hf_model(std::string_view config_json, const std::string& source,
                 const std::vector<std::string>& harmless = {});

}  // namespace trainctl
