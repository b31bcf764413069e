// lib/checkpoint/safetensors.h -- the safetensors container: an 8-byte little-endian header length, a JSON header,
// data. Strict both ways: what is written here opens with the public library, and what is read is checked before it is
// used.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "checkpoint/posix_io.h"
#include "tensor/dtype.h"

namespace trainctl {

inline constexpr int64_t kMaxSafetensorsHeader = 100'000'000;  // the public library's limit
inline constexpr int64_t kSafetensorsAlignment = 4096;         // of the data: 8 + N is padded with spaces to this

struct SafetensorsTensor {
  std::string name;
  std::string dtype;  // the container's spelling: F32, BF16, F64, I32, I64, U8; F16 is read only
  std::vector<int64_t> shape;
  int64_t begin = 0, end = 0;  // relative to the data
  int64_t bytes() const { return end - begin; }
};

struct SafetensorsHeader {
  std::vector<SafetensorsTensor> tensors;       // by offset
  std::map<std::string, std::string> metadata;  // __metadata__
  int64_t header_bytes = 0;                     // 8 + N: where the data starts in the file
  int64_t data_bytes = 0;

  const SafetensorsTensor* find(std::string_view name) const;
};

std::string safetensors_dtype(DType dtype);                        // f32 -> "F32"
std::optional<DType> dtype_of_safetensors(std::string_view name);  // empty: no such element type here (F16, F8_...)

// Checks: header length against the file, strict JSON without duplicate keys, dtype known, sizes without overflow,
// offsets ordered, no overlap, no hole, data exactly to the end of the file. Throws Error{checkpoint} naming file,
// tensor, expected and actual. `header` is the JSON text alone.
SafetensorsHeader parse_safetensors_header(std::string_view header, int64_t file_bytes, const std::string& file);
SafetensorsHeader read_safetensors_header(const std::filesystem::path& path);

// Length field and JSON header of the tensors, in their order, back to back from offset 0 (begin and end are set here).
// Padded with spaces to a multiple of 4096, or to `total_bytes` when that is larger. Throws Error{internal} for F16 or
// a tensor named twice.
std::string encode_safetensors_header(std::vector<SafetensorsTensor>& tensors,
                                      const std::map<std::string, std::string>& metadata, int64_t total_bytes = 0);

// Writes a file tensor by tensor, with no more memory than the caller's piece.
class SafetensorsWriter {
 public:
  SafetensorsWriter(const std::filesystem::path& path, std::vector<SafetensorsTensor> tensors,
                    const std::map<std::string, std::string>& metadata);
  // Bytes of the tensors in the order given, in pieces of any size.
  void append(const void* data, int64_t bytes);
  // All bytes must have been appended; syncs and closes. Returns the XXH3-128 of the whole file.
  std::string finish();

 private:
  std::vector<SafetensorsTensor> tensors_;
  FileHandle file_;
  Xxh128 digest_;
  int64_t at_ = 0, total_ = 0;
};

// Reads tensors of an existing file.
class SafetensorsReader {
 public:
  explicit SafetensorsReader(const std::filesystem::path& path);
  const SafetensorsHeader& header() const { return header_; }
  void read(const SafetensorsTensor& tensor, void* to, int64_t bytes, int64_t offset = 0) const;

 private:
  FileHandle file_;
  SafetensorsHeader header_;
};

}  // namespace trainctl
