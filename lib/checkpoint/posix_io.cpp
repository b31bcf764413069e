// lib/checkpoint/posix_io.cpp -- POSIX calls with whole transfers and precise errors.
#include "checkpoint/posix_io.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file_error.h"
#include "base/hash.h"

namespace trainctl {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void fail_with(ErrorKind kind, std::string_view action, const fs::path& path, int code) {
  throw file_error(kind, action, path, code);
}

}  // namespace

FileHandle FileHandle::create_exclusive(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd < 0) fail_with(ErrorKind::environment, "create", path, errno);
  return FileHandle(fd, path);
}

FileHandle FileHandle::open_for_reading(const fs::path& path) {
  // O_NONBLOCK: a fifo in a file's place must not block the open.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0 && errno == ELOOP)
    fail(ErrorKind::checkpoint, fmt::format("cannot open {}: it is a link, and links are refused", path.string()));
  if (fd < 0) fail_with(ErrorKind::checkpoint, "open", path, errno);
  FileHandle file(fd, path);
  struct stat info {};
  if (::fstat(fd, &info) != 0) fail_with(ErrorKind::checkpoint, "look at", path, errno);
  if (!S_ISREG(info.st_mode)) fail(ErrorKind::checkpoint, path.string() + " is not a regular file");
  return file;
}

FileHandle::FileHandle(FileHandle&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), direct_(other.direct_), path_(std::move(other.path_)) {}

FileHandle& FileHandle::operator=(FileHandle&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(direct_, other.direct_);
  std::swap(path_, other.path_);
  return *this;
}

FileHandle::~FileHandle() {
  if (fd_ >= 0) ::close(fd_);
}

void FileHandle::reserve(int64_t bytes) {
  if (bytes == 0) return;
  int code = 0;
  do code = ::fallocate(fd_, 0, 0, bytes) == 0 ? 0 : errno;
  while (code == EINTR);
  if (code == EOPNOTSUPP || code == ENOSYS) return;
  if (code != 0) fail_with(ErrorKind::environment, fmt::format("reserve {} bytes for", bytes), path_, code);
}

void FileHandle::write_at(const void* data, int64_t bytes, int64_t offset) {
  const char* from = static_cast<const char*>(data);
  bool stalled = false;
  while (bytes > 0) {
    const ssize_t wrote = ::pwrite(fd_, from, static_cast<size_t>(bytes), offset);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0 && errno != EAGAIN) fail_with(ErrorKind::environment, "write", path_, errno);
    if (wrote <= 0) {
      if (stalled) fail(ErrorKind::environment, fmt::format("cannot write {}: no byte is accepted", path_.string()));
      stalled = true;
      continue;
    }
    stalled = false;
    from += wrote;
    offset += wrote;
    bytes -= wrote;
  }
}

void FileHandle::read_at(void* data, int64_t bytes, int64_t offset) const {
  char* to = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = ::pread(fd_, to, static_cast<size_t>(bytes), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_with(ErrorKind::checkpoint, "read", path_, errno);
    if (got == 0)
      fail(ErrorKind::checkpoint, fmt::format("{} ends at byte {}, {} more are needed", path_.string(), offset, bytes));
    to += got;
    offset += got;
    bytes -= got;
  }
}

void FileHandle::sync_data() {
  if (::fdatasync(fd_) != 0) fail_with(ErrorKind::environment, "sync", path_, errno);
}

int64_t FileHandle::size() const {
  struct stat info {};
  if (::fstat(fd_, &info) != 0) fail_with(ErrorKind::environment, "look at", path_, errno);
  return info.st_size;
}

void FileHandle::truncate(int64_t bytes) {
  int code = 0;
  do code = ::ftruncate(fd_, bytes) == 0 ? 0 : errno;
  while (code == EINTR);
  if (code != 0) fail_with(ErrorKind::environment, fmt::format("cut to {} bytes", bytes), path_, code);
}

bool FileHandle::set_direct(bool on) {
  const int flags = ::fcntl(fd_, F_GETFL);
  if (flags < 0 || ::fcntl(fd_, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) != 0) return false;
  direct_ = on;
  return true;
}

void FileHandle::close() {
  const int fd = std::exchange(fd_, -1);
  if (fd >= 0 && ::close(fd) != 0 && errno != EINTR) fail_with(ErrorKind::environment, "close", path_, errno);
}

std::string read_small_file(const fs::path& path, int64_t limit) {
  std::string content;
  read_small_file(path, limit, content);
  return content;
}

void read_small_file(const fs::path& path, int64_t limit, std::string& content) {
  const FileHandle file = FileHandle::open_for_reading(path);
  const int64_t bytes = file.size();
  if (bytes > limit)
    fail(ErrorKind::checkpoint, fmt::format("{} has {} bytes, at most {} are legal", path.string(), bytes, limit));
  content.resize(static_cast<size_t>(bytes));
  file.read_at(content.data(), bytes, 0);
}

void put_small_file(const fs::path& path, std::string_view content) {
  fs::path temporary = path;
  temporary += ".tmp." + random_hex(8);
  try {
    FileHandle file = FileHandle::create_exclusive(temporary);
    file.write_at(content.data(), static_cast<int64_t>(content.size()), 0);
    file.close();
    if (::rename(temporary.c_str(), path.c_str()) != 0) fail_with(ErrorKind::environment, "write", path, errno);
  } catch (const Error&) {
    ::unlink(temporary.c_str());
    throw;
  }
}

int64_t regular_file_bytes(const fs::path& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return -1;
  return info.st_size;
}

void rename_to_new_name(const fs::path& from, const fs::path& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return;
  int code = errno;
  if (code == EINVAL || code == ENOSYS) {
    struct stat info {};
    code = ::lstat(to.c_str(), &info) == 0 ? EEXIST : 0;
    if (code == 0 && ::rename(from.c_str(), to.c_str()) != 0) code = errno;
  }
  if (code != 0) fail_with(ErrorKind::environment, fmt::format("rename {} to", from.string()), to, code);
}

int64_t free_bytes(const fs::path& folder) {
  struct statvfs info {};
  if (::statvfs(folder.c_str(), &info) != 0) fail_with(ErrorKind::environment, "ask for free space at", folder, errno);
  return static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
}

bool remove_tree(const fs::path& folder, std::string* cause) {
  std::error_code code;
  fs::remove_all(folder, code);
  if (cause) *cause = code ? code.message() : "another process writes into it";
  std::error_code gone;
  return !fs::exists(fs::symlink_status(folder, gone));
}

namespace {

std::vector<std::string> names_until(const fs::path& folder, std::error_code& code) {
  std::vector<std::string> names;
  for (fs::directory_iterator it(folder, code), end; !code && it != end; it.increment(code))
    names.push_back(it->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

std::vector<std::string> names_in(const fs::path& folder) {
  std::error_code ignored;
  return names_until(folder, ignored);
}

std::vector<std::string> readable_names_in(const fs::path& folder) {
  std::error_code code;
  std::vector<std::string> names = names_until(folder, code);
  if (code && code != std::errc::no_such_file_or_directory)
    throw file_error(ErrorKind::environment, "read", folder, code.value());
  return names;
}

bool is_safe_relative_path(std::string_view path) {
  if (path.empty() || path.size() > 4096) return false;
  size_t begin = 0;
  while (begin <= path.size()) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return false;
    for (const char c : part)
      if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
            c == '-'))
        return false;
    begin = end + 1;
  }
  return true;
}

}  // namespace trainctl
