// lib/data/token_writer.cpp -- the writer of Megatron-LM's .bin/.idx.
#include "data/token_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/file_error.h"
#include "base/hash.h"

namespace trainctl {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

template <class T>
void encode(std::span<const int32_t> ids, std::vector<char>& out) {
  out.resize(ids.size() * sizeof(T));
  char* p = out.data();
  for (const int32_t id : ids) {
    const T value = static_cast<T>(id);
    std::memcpy(p, &value, sizeof(T));
    p += sizeof(T);
  }
}

void encode_as(TokenDType dtype, std::span<const int32_t> ids, std::vector<char>& out) {
  switch (dtype) {
    case TokenDType::u8:
      return encode<uint8_t>(ids, out);
    case TokenDType::i8:
      return encode<int8_t>(ids, out);
    case TokenDType::i16:
      return encode<int16_t>(ids, out);
    case TokenDType::i32:
      return encode<int32_t>(ids, out);
    case TokenDType::i64:
      return encode<int64_t>(ids, out);
    case TokenDType::u16:
      return encode<uint16_t>(ids, out);
  }
}

template <class T>
void append_value(TemporaryFile& file, T value) {
  file.append(&value, sizeof(T));
}

}  // namespace

TemporaryFile::TemporaryFile(const std::filesystem::path& final_path)
    : final_path_(final_path), path_(final_path.string() + ".tmp-" + random_hex(8)) {
  buffer_.reserve(kBufferBytes);
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd_ < 0) throw file_error(ErrorKind::environment, "create", final_path_, errno);
}

TemporaryFile::~TemporaryFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(path_.c_str());
}

void TemporaryFile::append(const void* data, size_t bytes) {
  const char* p = static_cast<const char*>(data);
  while (bytes > 0) {
    const size_t part = std::min(bytes, kBufferBytes - buffer_.size());
    buffer_.insert(buffer_.end(), p, p + part);
    if (buffer_.size() == kBufferBytes) write_out();
    p += part;
    bytes -= part;
  }
}

void TemporaryFile::write_out() {
  const char* p = buffer_.data();
  size_t left = buffer_.size();
  while (left > 0) {
    const ssize_t done = ::write(fd_, p, left);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) throw file_error(ErrorKind::environment, "write", path_, errno);
    if (done == 0) fail(ErrorKind::environment, fmt::format("cannot write {}: no progress", path_.string()));
    p += done;
    left -= static_cast<size_t>(done);
  }
  buffer_.clear();
}

void TemporaryFile::flush_to_disk() {
  write_out();
  if (::fsync(fd_) != 0) throw file_error(ErrorKind::environment, "sync", path_, errno);
}

void TemporaryFile::publish() {
  if (::rename(path_.c_str(), final_path_.c_str()) != 0)
    throw file_error(ErrorKind::environment, fmt::format("rename {} to", path_.string()), final_path_, errno);
  ::close(fd_);
  fd_ = -1;
}

TokenWriter::TokenWriter(const std::filesystem::path& prefix, const TokenWriterOptions& options)
    : TokenWriter(prefix, options, token_dtype_for(options.vocab)) {}

TokenWriter::TokenWriter(const std::filesystem::path& prefix, const TokenWriterOptions& options, TokenDType dtype)
    : paths_(token_files_to_write(prefix)), options_(options), dtype_(dtype), bin_(paths_.bin), idx_(paths_.idx) {
  ensure(options.max_sequence_tokens >= 1 && options.max_sequence_tokens <= std::numeric_limits<int32_t>::max(),
         "max_sequence_tokens must fit the 32-bit sizes of the index");
  token_dtype_for(options.vocab);  // refuses a vocabulary that no dtype holds
  if (options.vocab - 1 > largest_id(dtype)) {
    fail(ErrorKind::input,
         fmt::format("{}: a vocabulary of {} ids does not fit {} (largest id {}); use {}", paths_.bin.string(),
                     options.vocab, name(dtype), largest_id(dtype), name(token_dtype_for(options.vocab))));
  }
}

void TokenWriter::append(std::span<const int32_t> ids) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < options_.vocab) [[likely]]
      continue;
    fail(ErrorKind::input,
         fmt::format("{}: token id {} in document {} at offset {} is outside the vocabulary of {} ids",
                     paths_.bin.string(), ids[i], documents(), document_tokens_ + static_cast<int64_t>(i),
                     options_.vocab));
  }
  encode_as(dtype_, ids, encoded_);
  bin_.append(encoded_.data(), encoded_.size());
  for (int64_t left = static_cast<int64_t>(ids.size()); left > 0;) {
    const int64_t part = std::min(left, options_.max_sequence_tokens - sequence_tokens_);
    sequence_tokens_ += part;
    document_tokens_ += part;
    tokens_ += part;
    left -= part;
    if (sequence_tokens_ == options_.max_sequence_tokens) {
      sizes_.push_back(static_cast<int32_t>(sequence_tokens_));
      sequence_tokens_ = 0;
    }
  }
}

void TokenWriter::end_document() {
  // An empty document keeps one empty sequence, so that readers that know sequences only see it too.
  if (sequence_tokens_ > 0 || document_tokens_ == 0) sizes_.push_back(static_cast<int32_t>(sequence_tokens_));
  sequence_tokens_ = document_tokens_ = 0;
  borders_.push_back(static_cast<int64_t>(sizes_.size()));
}

void TokenWriter::finish() {
  ensure(document_tokens_ == 0, "TokenWriter::finish with an open document");
  idx_.append(kIndexMagic.data(), kIndexMagic.size());
  append_value<uint64_t>(idx_, kIndexVersion);
  append_value<uint8_t>(idx_, static_cast<uint8_t>(dtype_));
  append_value<uint64_t>(idx_, sizes_.size());
  append_value<uint64_t>(idx_, borders_.size());
  idx_.append(sizes_.data(), sizes_.size() * sizeof(int32_t));
  int64_t pointer = 0;
  for (const int32_t size : sizes_) {
    append_value<int64_t>(idx_, pointer);
    pointer += size * bytes_of(dtype_);
  }
  idx_.append(borders_.data(), borders_.size() * sizeof(int64_t));
  bin_.flush_to_disk();
  idx_.flush_to_disk();
  std::error_code missing;
  std::filesystem::remove(paths_.idx, missing);
  bin_.publish();
  idx_.publish();
  const std::filesystem::path folder = paths_.bin.parent_path();
  sync_directory(folder.empty() ? std::filesystem::path(".") : folder);
}

}  // namespace trainctl
