// lib/model/families/families.cpp -- gpt2, llama, qwen2, qwen3.
#include "model/families/families.h"

#include <fmt/format.h>

#include "base/error.h"

namespace trainctl {

Architecture architecture_of(const ModelConfig& config) {
  Architecture a;
  if (config.family == "gpt2") {
    a.norm = NormKind::layernorm;
    a.activation = Activation::gelu_tanh;
    a.rotary = false;
    a.qkv_bias = a.output_bias = true;
  } else if (config.family == "qwen2") {
    a.qkv_bias = true;
  } else if (config.family == "qwen3") {
    a.qk_norm = true;
  } else if (config.family != "llama") {
    fail(ErrorKind::config,
         fmt::format("model.family: \"{}\" is unknown; known: gpt2, llama, qwen2, qwen3", config.family));
  }
  if (config.activation) {
    if (*config.activation == "swiglu")
      a.activation = Activation::swiglu;
    else if (*config.activation == "gelu")
      a.activation = Activation::gelu;
    else if (*config.activation == "gelu_tanh")
      a.activation = Activation::gelu_tanh;
    else
      fail(ErrorKind::config,
           fmt::format("model.activation: \"{}\" is unknown; known: gelu, gelu_tanh, swiglu", *config.activation));
  }
  a.gated = a.activation == Activation::swiglu;
  return a;
}

}  // namespace trainctl
