// lib/checkpoint/media_reader.cpp -- O_DIRECT reads with a fallback.
#include "checkpoint/media_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <new>
#include <system_error>

#include "base/error.h"
#include "base/hash.h"
#include "base/units.h"

namespace trainctl {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kAlignment = 4096;
constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;  // as in FileHandle: no links, no waiting fifos

[[noreturn]] void refuse(const fs::path& path, const std::string& what) {
  fail(ErrorKind::checkpoint, fmt::format("cannot read {} back: {}", path.string(), what));
}

std::string text_of(int code) { return std::generic_category().message(code); }

}  // namespace

void MediaReader::Free::operator()(char* p) const { std::free(p); }

MediaReader::MediaReader(const fs::path& path)
    : path_(path), buffer_(static_cast<char*>(std::aligned_alloc(static_cast<size_t>(kAlignment), kBlockBytes))) {
  if (!buffer_) throw std::bad_alloc();
  fd_ = ::open(path.c_str(), kFlags | O_DIRECT);
  direct_ = fd_ >= 0;
  if (!direct_ && errno != EINVAL && errno != EOPNOTSUPP) refuse(path, text_of(errno));
  if (!direct_) reopen_buffered();
  struct stat info {};
  const int code = ::fstat(fd_, &info) != 0 ? errno : 0;
  if (code != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd_);
    refuse(path, code != 0 ? text_of(code) : "it is not a regular file");
  }
}

MediaReader::~MediaReader() {
  if (fd_ >= 0) ::close(fd_);
}

void MediaReader::reopen_buffered() {
  if (fd_ >= 0) ::close(fd_);
  direct_ = false;
  fd_ = ::open(path_.c_str(), kFlags);
  if (fd_ < 0) refuse(path_, text_of(errno));
  // Dirty pages stay in memory: they are written first.
  ::fdatasync(fd_);
  ::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
}

const char* MediaReader::read(int64_t begin, int64_t bytes) {
  ensure(begin % kAlignment == 0 && bytes <= kBlockBytes, "a media read must be aligned and no longer than a block");
  for (int64_t done = 0; done < bytes;) {
    const int64_t wanted = direct_ ? round_up(bytes, kAlignment) - done : bytes - done;
    const ssize_t got = ::pread(fd_, buffer_.get() + done, static_cast<size_t>(wanted), begin + done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EINVAL && direct_) {
      reopen_buffered();
      done = 0;
      continue;
    }
    if (got < 0) refuse(path_, text_of(errno));
    if (got == 0) refuse(path_, fmt::format("it ends at byte {}, {} more are needed", begin + done, bytes - done));
    // A short direct read can only go on where its buffer is aligned; less than that is the end of the file.
    if (direct_ && done + got < bytes && got < kAlignment)
      refuse(path_, fmt::format("it ends at byte {}, {} more are needed", begin + done + got, bytes - done - got));
    done += direct_ && done + got < bytes ? got - got % kAlignment : got;
  }
  return buffer_.get();
}

std::string_view way_of(bool direct) { return direct ? "O_DIRECT" : "page cache dropped"; }

MediaCheck check_media(const fs::path& folder, const FileRecord& file, const std::function<void(int64_t)>& step) {
  MediaReader reader(folder / file.path);
  MediaCheck check;
  for (size_t b = 0; b < file.block_xxh128.size(); ++b) {
    const int64_t begin = static_cast<int64_t>(b) * kBlockBytes, bytes = std::min(kBlockBytes, file.bytes - begin);
    const std::string& expected = file.block_xxh128[b];
    std::string actual;
    // Read again before judging: a fault on the way must not condemn a good file.
    try {
      for (int attempt = 0; attempt < 2 && actual != expected; ++attempt)
        actual = xxh128_hex(reader.read(begin, bytes), static_cast<size_t>(bytes));
    } catch (const Error& e) {
      if (check.wrong.empty()) throw;
      check.unread = e.what();  // what was proven before stays proven
      break;
    }
    if (actual != expected) check.wrong.push_back({static_cast<int64_t>(b), expected, actual});
    if (step) step(bytes);
  }
  check.direct = reader.direct();
  return check;
}

std::string describe(const FileRecord& file, const WrongBlock& w) {
  const int64_t begin = w.block * kBlockBytes;
  return fmt::format("{}: block {} (bytes {} to {}) has the digest {}, {} expected", file.path, w.block, begin,
                     std::min(begin + kBlockBytes, file.bytes), w.actual, w.expected);
}

}  // namespace trainctl
