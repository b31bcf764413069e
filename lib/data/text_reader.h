// lib/data/text_reader.h -- a file as chunks or as lines, forward only, in constant memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace trainctl {

class TextReader {
 public:
  static constexpr int64_t kLongestLineBytes = int64_t{1} << 30;

  explicit TextReader(const std::filesystem::path& path);  // throws Error{input}: missing, a folder, no permission
  ~TextReader();
  TextReader(const TextReader&) = delete;
  TextReader& operator=(const TextReader&) = delete;

  // The next bytes of the file, at most 1 MiB; false at the end. The view holds until the next call.
  bool next_chunk(std::string_view& chunk);

  // The next line and what ended it ("\n", "\r\n", or "" for a last line without one); false at the end. The views
  // hold until the next call. Throws Error{input} with file:line for a line above kLongestLineBytes.
  bool next_line(std::string_view& line, std::string_view& terminator);

  int64_t line_number() const { return line_; }  // of the line returned last, from 1
  int64_t bytes_read() const { return bytes_; }

 private:
  bool refill();
  std::filesystem::path path_;
  int fd_ = -1;
  std::string buffer_;
  size_t begin_ = 0;  // what is before it in buffer_ has been handed out
  int64_t line_ = 0, bytes_ = 0;
};

}  // namespace trainctl
