// lib/data/token_writer.h -- writes PREFIX.bin and PREFIX.idx document by document, in any size, all or nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "data/indexed_tokens.h"
#include "data/token_paths.h"

namespace trainctl {

// A file that grows by appending under a temporary name; removed again unless publish() was called.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::filesystem::path& final_path);  // throws Error{environment}
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  void append(const void* data, size_t bytes);
  void flush_to_disk();  // the rest of the buffer, then fsync
  void publish();        // renames to the final path; flush_to_disk() comes first

 private:
  void write_out();
  int fd_ = -1;
  std::filesystem::path final_path_, path_;
  std::vector<char> buffer_;
};

struct TokenWriterOptions {
  int64_t vocab = 0;  // ids must lie in [0, vocab)
  // A document with more tokens is written as several sequences: sizes in the index are 32-bit.
  int64_t max_sequence_tokens = std::numeric_limits<int32_t>::max();
};

// Memory: 4 bytes per sequence and 8 per document until finish().
class TokenWriter {
 public:
  // dtype: token_dtype_for(vocab), or the one given, which must hold vocab - 1. Throws Error{input} when it does not,
  // Error{environment} when the folder cannot be written.
  TokenWriter(const std::filesystem::path& prefix, const TokenWriterOptions& options);
  TokenWriter(const std::filesystem::path& prefix, const TokenWriterOptions& options, TokenDType dtype);

  // Adds tokens to the open document. Throws Error{input} with document and offset for an id outside [0, vocab).
  void append(std::span<const int32_t> ids);
  void end_document();  // an empty document is legal

  // Writes the index and moves both files to their names: the old index goes first, so that a crash in between leaves
  // a pair that is refused (no index), never one that disagrees. Every document must be ended. Call once.
  void finish();

  const TokenPaths& paths() const { return paths_; }
  TokenDType dtype() const { return dtype_; }
  int64_t documents() const { return static_cast<int64_t>(borders_.size()) - 1; }
  int64_t tokens() const { return tokens_; }

 private:
  TokenPaths paths_;
  TokenWriterOptions options_;
  TokenDType dtype_;
  TemporaryFile bin_, idx_;
  std::vector<int32_t> sizes_;
  std::vector<int64_t> borders_{0};
  std::vector<char> encoded_;
  int64_t tokens_ = 0;
  int64_t sequence_tokens_ = 0, document_tokens_ = 0;
};

}  // namespace trainctl
