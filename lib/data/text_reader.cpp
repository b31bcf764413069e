// lib/data/text_reader.cpp -- read(2) into one growing buffer.
#include "data/text_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace trainctl {
namespace {
constexpr size_t kChunkBytes = size_t{1} << 20;
}

TextReader::TextReader(const std::filesystem::path& path) : path_(path) {
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0) fail(ErrorKind::input, fmt::format("{}: cannot be opened: {}", path.string(), std::strerror(errno)));
}

TextReader::~TextReader() {
  if (fd_ >= 0) ::close(fd_);
}

bool TextReader::refill() {
  buffer_.erase(0, begin_);
  begin_ = 0;
  const size_t old = buffer_.size();
  buffer_.resize(old + kChunkBytes);
  ssize_t got = 0;
  do {
    got = ::read(fd_, buffer_.data() + old, kChunkBytes);
  } while (got < 0 && errno == EINTR);
  const int cause = errno;
  buffer_.resize(old + static_cast<size_t>(got > 0 ? got : 0));
  if (got < 0) fail(ErrorKind::input, fmt::format("{}: cannot be read: {}", path_.string(), std::strerror(cause)));
  bytes_ += got;
  return got > 0;
}

bool TextReader::next_chunk(std::string_view& chunk) {
  if (begin_ == buffer_.size() && !refill()) return false;
  chunk = std::string_view(buffer_).substr(begin_);
  begin_ = buffer_.size();
  return true;
}

bool TextReader::next_line(std::string_view& line, std::string_view& terminator) {
  size_t searched = 0;  // bytes after begin_ known to hold no '\n'
  size_t end = std::string::npos;
  while ((end = buffer_.find('\n', begin_ + searched)) == std::string::npos) {
    searched = buffer_.size() - begin_;
    if (static_cast<int64_t>(searched) > kLongestLineBytes) {
      fail(ErrorKind::input, fmt::format("{}:{}: a line of more than {} bytes; split it, or read the file with "
                                         "`--split none`",
                                         path_.string(), line_ + 1, kLongestLineBytes));
    }
    if (refill()) continue;
    if (searched == 0) return false;
    ++line_;
    line = std::string_view(buffer_).substr(begin_);
    terminator = {};
    begin_ = buffer_.size();
    return true;
  }
  ++line_;
  const bool carriage_return = end > begin_ && buffer_[end - 1] == '\r';
  const size_t stop = carriage_return ? end - 1 : end;
  line = std::string_view(buffer_).substr(begin_, stop - begin_);
  terminator = std::string_view(buffer_).substr(stop, end + 1 - stop);
  begin_ = end + 1;
  return true;
}

}  // namespace trainctl
