// tests/support/small_file_system.h -- a tmpfs of a few MiB on a folder, to fill and to free again.
#pragma once

#include <sys/mount.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace trainctl::testing {

class SmallFileSystem {
 public:
  // Mounting needs a privilege: mounted() may be false, and the test then says that it was skipped.
  SmallFileSystem(const std::filesystem::path& at, int64_t bytes) : at_(at) {
    const std::string size = "size=" + std::to_string(bytes);
    if (::mount("tmpfs", at.c_str(), "tmpfs", 0, size.c_str()) != 0) why_not_ = std::strerror(errno);
  }
  ~SmallFileSystem() {
    if (mounted()) ::umount2(at_.c_str(), MNT_DETACH);
  }
  SmallFileSystem(const SmallFileSystem&) = delete;
  SmallFileSystem& operator=(const SmallFileSystem&) = delete;

  bool mounted() const { return why_not_.empty(); }
  const std::string& why_not() const { return why_not_; }

  void fill() const {  // to the last byte
    std::ofstream out(filler(), std::ios::binary | std::ios::app);
    for (const size_t piece : {size_t{1} << 16, size_t{4096}, size_t{1}}) {
      const std::vector<char> zeros(piece);
      while (out.write(zeros.data(), static_cast<std::streamsize>(piece)) && out.flush()) {
      }
      out.clear();
    }
  }
  void free() const { std::filesystem::remove(filler()); }

 private:
  std::filesystem::path filler() const { return at_ / "filler"; }
  std::filesystem::path at_;
  std::string why_not_;
};

}  // namespace trainctl::testing
