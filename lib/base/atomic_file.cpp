// lib/base/atomic_file.cpp -- POSIX files that are whole or absent.
#include "base/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file_error.h"
#include "base/hash.h"

namespace trainctl {
namespace {

// What is read whole: recipes, topologies, metrics. A pipe or a device may have no end.
constexpr int64_t kLongestFileBytes = int64_t{4} << 30, kLongestStreamBytes = int64_t{64} << 20;

[[noreturn]] void fail_on(ErrorKind kind, std::string_view action, const std::filesystem::path& path, int code) {
  throw file_error(kind, action, path, code);
}

// 0, or the errno of the failed write, and `data` what is left.
int write_all(int fd, std::string_view& data) {
  while (!data.empty()) {
    const ssize_t wrote = ::write(fd, data.data(), data.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return errno;
    data.remove_prefix(static_cast<size_t>(wrote));
  }
  return 0;
}

// 0, or the errno of the failed sync.
int sync_open_directory(int fd) {
  const int code = ::fsync(fd) == 0 ? 0 : errno;
  return code == EINVAL ? 0 : code;  // some network file systems cannot sync a folder: their renames are synchronous
}

}  // namespace

void write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  write_file_atomically(path, std::span<const std::string_view>(&content, 1));
}

void write_file_atomically(const std::filesystem::path& path, std::span<const std::string_view> pieces) {
  const std::filesystem::path parent = path.has_parent_path() ? path.parent_path() : ".";
  // Opened first: as soon as the name is there, somebody may move the whole folder.
  const int folder = ::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const int no_folder = folder < 0 ? errno : 0;
  const auto give_up = [&](int code) {
    if (folder >= 0) ::close(folder);
    fail_on(ErrorKind::environment, "write", path, code);
  };
  std::filesystem::path temporary = path;
  temporary += fmt::format(".tmp.{}.{}", ::getpid(), random_hex(8));
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) give_up(errno);
  int code = 0;
  for (std::string_view piece : pieces)
    if (code == 0) code = write_all(fd, piece);
  if (code == 0 && ::fsync(fd) != 0) code = errno;
  if (::close(fd) != 0 && code == 0) code = errno;
  if (code == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) code = errno;
  if (code != 0) {
    ::unlink(temporary.c_str());
    give_up(code);
  }
  code = folder < 0 ? no_folder : sync_open_directory(folder);
  if (folder >= 0) ::close(folder);
  if (code != 0) fail_on(ErrorKind::environment, "sync the folder", parent, code);
}

std::filesystem::path behind_links(std::filesystem::path path) {
  constexpr int kMostLinks = 40;  // as the kernel
  for (int links = 0; std::filesystem::is_symlink(std::filesystem::symlink_status(path)); ++links) {
    if (links == kMostLinks) fail_on(ErrorKind::input, "follow", path, ELOOP);
    const std::filesystem::path target = std::filesystem::read_symlink(path);
    path = target.is_absolute() ? target : path.parent_path() / target;
  }
  return path;
}

std::string read_file(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail_on(ErrorKind::input, "read", path, errno);
  std::string content;
  struct stat info {};
  const bool regular = ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  const int64_t longest = regular ? kLongestFileBytes : kLongestStreamBytes;
  const auto refuse_long = [&] {
    ::close(fd);
    fail(ErrorKind::input, fmt::format("cannot read {}: it has more than {} bytes; name the file that was meant",
                                       path.string(), longest));
  };
  if (regular && info.st_size > longest) refuse_long();
  if (regular && info.st_size > 0) content.reserve(static_cast<size_t>(info.st_size));
  char buffer[1 << 16];
  for (;;) {
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      const int code = errno;
      ::close(fd);
      fail_on(ErrorKind::input, "read", path, code);
    }
    if (got == 0) break;
    content.append(buffer, static_cast<size_t>(got));
    if (static_cast<int64_t>(content.size()) > longest) refuse_long();
  }
  ::close(fd);
  return content;
}

namespace {

// 0, or the errno of the failed sync.
int try_sync_directory(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return errno;
  const int code = sync_open_directory(fd);
  ::close(fd);
  return code;
}

}  // namespace

void make_directories(const std::filesystem::path& path) {
  int code = ::mkdir(path.c_str(), 0777) == 0 ? 0 : errno;
  if (const std::filesystem::path above = path.parent_path(); code == ENOENT && !above.empty() && above != path) {
    make_directories(above);
    if (!path.has_filename()) return;                     // "a/": its parent "a" was all of it
    code = ::mkdir(path.c_str(), 0777) == 0 ? 0 : errno;  // ENOENT again: nothing can be made there (/proc)
  }
  if (code != 0) {
    std::error_code unknown;
    if (code == EEXIST && std::filesystem::is_directory(path, unknown)) return;
    if (unknown) code = unknown.value();
    fail_on(code == EEXIST ? ErrorKind::input : ErrorKind::environment, "create the folder", path, code);
  }
  const std::filesystem::path parent = (path.has_filename() ? path : path.parent_path()).parent_path();
  code = try_sync_directory(parent.empty() ? "." : parent);
  if (code == 0 || code == EACCES) return;  // a folder that may be written and not read cannot be synced
  ::rmdir(path.c_str());                    // else the next attempt would take it for synced
  fail_on(ErrorKind::environment, "sync the folder", parent, code);
}

void sync_directory(const std::filesystem::path& path) {
  if (const int code = try_sync_directory(path); code != 0)
    fail_on(ErrorKind::environment, "sync the folder", path, code);
}

LineWriter::LineWriter(const std::filesystem::path& path, bool truncate, MakeRoom make_room)
    : path_(path), make_room_(std::move(make_room)) {
  fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (truncate ? O_TRUNC : 0), 0666);
  if (fd_ < 0) fail_on(ErrorKind::environment, "write", path, errno);
}

LineWriter::~LineWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void LineWriter::line(std::string_view text) {
  std::string whole(text);
  whole += '\n';
  std::string_view left = whole;
  int code = write_all(fd_, left);
  if ((code == ENOSPC || code == EDQUOT) && make_room_ && make_room_()) code = write_all(fd_, left);
  if (code != 0) fail_on(ErrorKind::environment, "write", path_, code);
}

}  // namespace trainctl
