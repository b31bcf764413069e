// lib/data/mapped_file.h -- a read-only memory map of a whole file; unmapped when it goes away.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace trainctl {

class MappedFile {
 public:
  // Maps `path` (a regular file, or a link to one). An empty file gives an empty span. `random_access` switches the
  // kernel's read-ahead off. Throws Error{input} naming the path and the cause.
  MappedFile(const std::filesystem::path& path, bool random_access);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) = delete;

  std::span<const std::byte> bytes() const { return {data_, static_cast<size_t>(size_)}; }
  int64_t size() const { return size_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace trainctl
