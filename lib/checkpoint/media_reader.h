// lib/checkpoint/media_reader.h -- reading a file from where it is stored, so that what the page cache still remembers
// proves nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/format.h"

namespace trainctl {

// O_DIRECT where the file system takes it; elsewhere the file's clean pages are dropped first (posix_fadvise).
class MediaReader {
 public:
  // Throws Error{checkpoint} as FileHandle::open_for_reading does.
  explicit MediaReader(const std::filesystem::path& path);
  MediaReader(const MediaReader&) = delete;
  MediaReader& operator=(const MediaReader&) = delete;
  ~MediaReader();

  // Bytes [begin, begin + bytes) with begin a multiple of 4096 and bytes <= kBlockBytes; valid until the next call.
  // Throws Error{checkpoint} when the file ends before.
  const char* read(int64_t begin, int64_t bytes);
  bool direct() const { return direct_; }

 private:
  void reopen_buffered();
  std::filesystem::path path_;
  int fd_ = -1;
  bool direct_ = false;
  struct Free {
    void operator()(char* p) const;
  };
  std::unique_ptr<char, Free> buffer_;  // kBlockBytes, aligned to 4096
};

// How a file was read, for VERIFIED: "O_DIRECT" or "page cache dropped".
std::string_view way_of(bool direct);

// A block that does not have its digest in two readings.
struct WrongBlock {
  int64_t block = 0;
  std::string expected, actual;
};

// Reads every block of a file and compares digests; goes on after a wrong one. `step(bytes)` after each block; it may
// throw to end early. Returns the wrong ones. Throws Error{checkpoint} when the file cannot be read.
struct MediaCheck {
  std::vector<WrongBlock> wrong;
  std::string unread{};  // why reading ended after a wrong block; without one that is an error
  bool direct = false;
};
MediaCheck check_media(const std::filesystem::path& folder, const FileRecord& file,
                       const std::function<void(int64_t)>& step);

// "data/x.safetensors: block 3 (bytes 12582912 to 16777216) has the digest ..., ... expected"
std::string describe(const FileRecord& file, const WrongBlock& block);

}  // namespace trainctl
