// lib/interop/hf_config.h -- config.json and generation_config.json of an exported model.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "data/data_config.h"
#include "model/model_config.h"
#include "tensor/dtype.h"

namespace trainctl {

// Every field that changes results, in the spelling of transformers 4.5x (rope_scaling also with the older key "type").
// `model` is resolved. Throws Error{checkpoint} for YaRN whose factor does not stretch original_positions to a whole
// number: releases of transformers differ in how they read it.
nlohmann::ordered_json hf_config(const ModelConfig& model, const TokenizerConfig& tokenizer, DType dtype);
nlohmann::ordered_json hf_generation_config(const ModelConfig& model, const TokenizerConfig& tokenizer);

}  // namespace trainctl
