// lib/interop/gguf_writer.h -- the GGUF container, version 3: typed keys, tensor descriptions, aligned data.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/posix_io.h"
#include "tensor/shape.h"

namespace trainctl {

enum class GgufType : uint32_t { f32 = 0, f16 = 1, q8_0 = 8, bf16 = 30 };  // numbers of the format
std::string_view name(GgufType type);                                      // "F32"

// Q8_0: runs of 32 elements of a row share an f16 scale d; an element is d times an 8-bit integer. 34 bytes a run.
inline constexpr int64_t kQ8Run = 32, kQ8Bytes = 34;

// Bytes of `rows` rows of `columns` elements. Q8_0 needs columns to be a multiple of kQ8Run.
int64_t gguf_bytes(GgufType type, int64_t rows, int64_t columns);

struct GgufTensor {
  std::string name;
  GgufType type = GgufType::f32;
  Shape shape;  // row-major; the file has the dimensions in the opposite order
};

// Keys first, in the order they shall have, then open(), then the tensors' bytes in order, then finish().
class GgufWriter {
 public:
  void text(std::string_view key, std::string_view value);
  void u32(std::string_view key, uint32_t value);
  void f32(std::string_view key, float value);
  void flag(std::string_view key, bool value);
  void texts(std::string_view key, const std::vector<std::string>& values);
  void i32s(std::string_view key, const std::vector<int32_t>& values);

  // Throws Error{environment} when the file exists or the disk has no room for all of it.
  void open(const std::filesystem::path& path, std::vector<GgufTensor> tensors);
  void append(const void* data, int64_t bytes);
  void end_tensor();  // pads to the alignment; all bytes of the tensor must have been given
  void finish();      // syncs and closes

 private:
  void key(std::string_view key, uint32_t type);

  std::string keys_;
  uint64_t num_keys_ = 0;
  std::vector<GgufTensor> tensors_;
  size_t next_ = 0;    // tensor being written
  int64_t given_ = 0;  // of its bytes
  int64_t at_ = 0;     // in the file
  std::optional<FileHandle> file_;
};

}  // namespace trainctl
