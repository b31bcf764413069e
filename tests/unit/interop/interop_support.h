// tests/unit/interop/interop_support.h -- checkpoints made of the golden fixtures, exports read back.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
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
  DType dtype = DType::f32;  // of the weights; bf16 ones get an f32 master,
  std::string no_master;     // but those whose name holds this; "": all
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

// A safetensors tensor as bytes, of any dtype the container knows.
struct RawTensor {
  std::string dtype;
  std::vector<int64_t> shape;
  std::string bytes;
};
using RawTensors = std::map<std::string, RawTensor>;
// A safetensors file written apart from lib/checkpoint.
void put_safetensors(const std::filesystem::path& path, const RawTensors& tensors);
RawTensor raw_f32(const std::vector<int64_t>& shape, const std::vector<float>& values);
RawTensor as_bf16(const RawTensor& f32);  // rounded to nearest even

// The golden model of that name as a Hugging Face folder (an export of its weights).
void put_golden_folder(const std::filesystem::path& scratch, const std::string& name,
                       const std::filesystem::path& folder);
// The tensors and the config.json of a folder with one file, to be changed and put into another one.
RawTensors raw_tensors(const std::filesystem::path& safetensors);
void put_hf_folder(const std::filesystem::path& folder, const nlohmann::json& config, const RawTensors& tensors);

// Runs `work` in a child process that ends afterwards, whatever happens in it.
void in_child(const std::function<void()>& work);
// Bytes by which the peak of resident memory grows over what the process holds when `work` starts; in a child process.
int64_t growth_of_peak(const std::function<void()>& work);

nlohmann::json read_json(const std::filesystem::path& path);
std::vector<std::string> names_below(const std::filesystem::path& folder);  // hidden ones too, sorted

}  // namespace trainctl::testing
