// lib/interop/hf_source.h -- a Hugging Face folder's tensors: model.safetensors, or shards and their index.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"

namespace trainctl {

class HfSource {
 public:
  // Reads every header. Throws Error{input}: no such folder or no weights in it, an index and a single file beside each
  // other, names in the index that leave the folder, links, an index and its files that disagree (all of it at once),
  // a damaged or truncated file.
  explicit HfSource(const std::filesystem::path& folder);

  struct Tensor {
    const SafetensorsReader* file = nullptr;
    const SafetensorsTensor* entry = nullptr;
  };
  const std::map<std::string, Tensor>& tensors() const { return tensors_; }
  const std::vector<std::string>& files() const { return names_; }  // of weights
  const std::filesystem::path& folder() const { return folder_; }

 private:
  void open_index(const std::string& text);
  void open(const std::string& name);

  std::filesystem::path folder_;
  std::vector<std::string> names_;
  std::map<std::string, SafetensorsReader> readers_;
  std::map<std::string, Tensor> tensors_;
};

// A small file of such a folder: regular, no link. Throws Error{input}.
std::string read_hf_file(const std::filesystem::path& folder, const std::string& name);
bool has_hf_file(const std::filesystem::path& folder, const std::string& name);  // of any type, links too

// "what" with all of `faults`, one a line, at most `most` of them and the number of the others.
std::string listed(const std::string& what, const std::vector<std::string>& faults, size_t most = 200);

}  // namespace trainctl
