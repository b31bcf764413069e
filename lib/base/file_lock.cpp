// lib/base/file_lock.cpp -- flock with a note about its holder.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"

namespace trainctl {

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

FileLock::FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

bool FileLock::try_acquire(const std::filesystem::path& path, std::string_view note, std::string* holder) {
  return take(path, LOCK_EX, note, holder);
}

bool FileLock::try_share(const std::filesystem::path& path, std::string_view note) {
  return take(path, LOCK_SH, note, nullptr);
}

bool FileLock::take(const std::filesystem::path& path, int mode, std::string_view note, std::string* holder) {
  ensure(fd_ < 0, "FileLock: this one is already held");
  const auto refuse = [&path](int code) {
    fail(ErrorKind::environment,
         fmt::format("cannot lock {}: {}", path.string(), std::generic_category().message(code)));
  };
  // Close-on-exec: a program started by the holder does not keep the lock after the holder's death.
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) refuse(errno);
  if (::flock(fd, mode | LOCK_NB) != 0) {
    const int code = errno;
    char buffer[512];
    const ssize_t got = ::pread(fd, buffer, sizeof buffer, 0);
    ::close(fd);
    if (code != EWOULDBLOCK) refuse(code);
    if (holder != nullptr) holder->assign(buffer, static_cast<size_t>(got > 0 ? got : 0));
    return false;
  }
  // The note only informs; a failure to write it (full disk) does not make the lock less held.
  const bool noted = ::ftruncate(fd, 0) == 0 && ::pwrite(fd, note.data(), note.size(), 0) >= 0;
  static_cast<void>(noted);
  fd_ = fd;
  return true;
}

}  // namespace trainctl
