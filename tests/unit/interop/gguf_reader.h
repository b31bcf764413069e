// tests/unit/interop/gguf_reader.h -- a reader of GGUF files that shares nothing with the writer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace trainctl::testing {

inline constexpr uint32_t kF32 = 0, kF16 = 1, kQ8 = 8, kBf16 = 30;  // tensor types of the format

struct GgufFile {
  struct Tensor {
    std::vector<uint64_t> dims;  // as in the file: the fastest first
    uint32_t type = 0;
    uint64_t offset = 0;
    std::string bytes;
  };
  std::map<std::string, nlohmann::json> keys;
  std::map<std::string, Tensor> tensors;
};

GgufFile read_gguf(const std::filesystem::path& path);  // throws std::runtime_error for what is no GGUF file
float half_value(uint16_t h);
std::vector<float> decode(const GgufFile::Tensor& t);  // the elements, in the order of the file

}  // namespace trainctl::testing
