// lib/interop/hf_config.h -- config.json and generation_config.json of an exported model.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "model/model_config.h"
#include "tensor/dtype.h"

namespace trainctl {

// Every field that changes results, in the spelling of transformers 4.5x (rope_scaling also with the older key "type").
// `model` is resolved. Throws Error{checkpoint} for YaRN whose factor does not stretch original_positions to a whole
// number: releases of transformers differ in how they read it.
// `special_ids`: bos_token_id, eos_token_id, pad_token_id; all are said, null too: the classes' own defaults are the
// ids of the original tokenizers.
nlohmann::ordered_json hf_config(const ModelConfig& model, const nlohmann::ordered_json& special_ids, DType dtype);
nlohmann::ordered_json hf_generation_config(const nlohmann::ordered_json& special_ids);

}  // namespace trainctl
