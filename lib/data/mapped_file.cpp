// lib/data/mapped_file.cpp -- open, stat, mmap; the descriptor is closed at once, the map stays.
#include "data/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace trainctl {

MappedFile::MappedFile(const std::filesystem::path& path, bool random_access) : path_(path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail(ErrorKind::input, fmt::format("{}: cannot be opened: {}", path.string(), std::strerror(errno)));
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    fail(ErrorKind::input, fmt::format("{}: not a regular file", path.string()));
  }
  size_ = info.st_size;
  if (size_ > 0) {
    void* map = ::mmap(nullptr, static_cast<size_t>(size_), PROT_READ, MAP_SHARED, fd, 0);
    const int cause = errno;
    if (map == MAP_FAILED) {
      ::close(fd);
      fail(ErrorKind::input,
           fmt::format("{}: {} bytes cannot be mapped into memory: {}", path.string(), size_, std::strerror(cause)));
    }
    data_ = static_cast<const std::byte*>(map);
    ::madvise(map, static_cast<size_t>(size_), random_access ? MADV_RANDOM : MADV_NORMAL);
  }
  ::close(fd);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), static_cast<size_t>(size_));
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

}  // namespace trainctl
