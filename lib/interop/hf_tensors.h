// lib/interop/hf_tensors.h -- which tensors a Hugging Face model of a family has, and what they are made of here.
#pragma once

#include <string>
#include <vector>

#include "model/model_config.h"
#include "tensor/shape.h"

namespace trainctl {

struct HfTensor {
  std::string name;  // "model.layers.0.self_attn.q_proj.weight"
  Shape shape;
  // Names in the state catalog. They are stacked along their first dimension (GPT-2's c_attn: q, k, v).
  std::vector<std::string> parts;
  std::vector<Shape> part_shapes;
  bool transposed = false;  // the stack is [out, in], Hugging Face has [in, out] (GPT-2's Conv1D)
};

// Every parameter of `model`, in the order of the forward pass; a tied head is none. `model` is resolved: kv_heads,
// head_dim, d_ff and vocab are set. Throws Error{checkpoint} for a family other than gpt2, llama, qwen2, qwen3.
std::vector<HfTensor> hf_tensors(const ModelConfig& model);

}  // namespace trainctl
