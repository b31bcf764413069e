// tests/unit/interop/interop_support.h -- checkpoints made of the golden fixtures, exports read back.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "../checkpoint/fixture.h"

namespace trainctl::testing {

struct Values {
  std::vector<int64_t> shape;
  std::vector<float> data;
  bool operator==(const Values&) const = default;
};
using Weights = std::map<std::string, Values>;

struct Golden {
  nlohmann::json model;  // the recipe's section
  Weights weights;       // under trainctl's names
};
inline const std::vector<std::string> kGoldenCases = {"gpt2",
                                                      "gpt2_gelu_exact",
                                                      "llama",
                                                      "llama_tied",
                                                      "llama_rope_linear",
                                                      "llama_rope_llama3",
                                                      "llama_rope_yarn",
                                                      "qwen2",
                                                      "qwen3"};
Golden golden(const std::string& name);

// A resolved recipe with that model section, as a run records it.
nlohmann::json provenance_of(const nlohmann::json& model);

struct SaveOptions {
  int64_t world = 1;         // ranks; every tensor is cut by rows
  DType dtype = DType::f32;  // of the weights; bf16 ones get an f32 master
  double loss = 1.0;
  std::string provenance;                      // "": provenance_of(model)
  std::map<std::string, std::string> aliases;  // name -> name it is a copy of
};
// Saves step 7 of a run below `root`; returns its folder.
std::filesystem::path save_weights(const std::filesystem::path& root, const Golden& state,
                                   const SaveOptions& options = {});

struct ExportedTensor {
  std::string dtype, file;
  Values values;
};
// Every tensor of the safetensors files of a folder; values widened to f32.
std::map<std::string, ExportedTensor> read_export(const std::filesystem::path& folder);
// Hugging Face's names and layouts back to trainctl's, written apart from the exporter.
Weights back_to_trainctl(const std::map<std::string, ExportedTensor>& exported);

nlohmann::json read_json(const std::filesystem::path& path);
std::vector<std::string> names_below(const std::filesystem::path& folder);  // hidden ones too, sorted

}  // namespace trainctl::testing
