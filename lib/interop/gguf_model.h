// lib/interop/gguf_model.h -- a model in llama.cpp's words: keys, tensor names, and the order of rows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "interop/gguf_writer.h"
#include "model/model_config.h"

namespace trainctl {

struct GgufPart {
  std::string name;
  Shape shape;
  // Names in the state catalog, stacked along their first dimension (GPT-2's attn_qkv). Empty: `values` alone.
  std::vector<std::string> parts;
  std::vector<float> values;
  // Heads whose rows are interleaved: llama.cpp rotates neighbouring channels (2i, 2i + 1) in the llama architecture,
  // where the catalog pairs i with i + head_dim / 2: output row 2i + s of a head is its row s head_dim / 2 + i. 0:
  // none.
  int64_t interleaved_heads = 0;
  bool always_f32 = false;  // vectors, and GPT-2's table of positions
};

// Every tensor of `model` (resolved), in the order of the forward pass; a tied head is none. With llama3 RoPE scaling
// also rope_freqs.weight: what each frequency is divided by.
std::vector<GgufPart> gguf_tensors(const ModelConfig& model);

// The architecture's keys. Throws Error{checkpoint} for what llama.cpp does not compute: GPT-2's exact GELU, llama3
// scaling outside the llama family, YaRN borders other than 32 and 1.
void put_gguf_keys(const ModelConfig& model, GgufWriter& writer);

}  // namespace trainctl
