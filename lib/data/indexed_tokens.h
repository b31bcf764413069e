// lib/data/indexed_tokens.h -- reads Megatron-LM's token files: PREFIX.bin (ids) and PREFIX.idx (where documents lie).
//
// PREFIX.idx, little endian, no padding between the parts:
//   9 bytes  "MMIDIDX" and two zero bytes          u64  version, 1
//   u8       dtype code (below)                    u64  sequences N      u64  document borders M (documents + 1)
//   i32[N]   tokens of each sequence               i64[N]  byte offset of each sequence in PREFIX.bin
//   i64[M]   first sequence of each document; the last entry is N
//   i8[N]    modes; multimodal files only, ignored here
// A document is one or more sequences that lie one after the other in PREFIX.bin.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "data/mapped_file.h"

namespace trainctl {

inline constexpr std::string_view kIndexMagic{"MMIDIDX\0\0", 9};
inline constexpr uint64_t kIndexVersion = 1;
inline constexpr int64_t kIndexHeaderBytes = 34;

// Codes as in the index. 6 (float64) and 7 (float32) exist in the format but hold no token ids.
enum class TokenDType : uint8_t { u8 = 1, i8 = 2, i16 = 3, i32 = 4, i64 = 5, u16 = 8 };
std::string_view name(TokenDType dtype);  // "uint8", "int32", ...
int64_t bytes_of(TokenDType dtype);
int64_t largest_id(TokenDType dtype);
// uint16 up to 65536 ids, int32 above. Throws Error{input} for a vocabulary < 1 or > 2^31.
TokenDType token_dtype_for(int64_t vocab);

class IndexedTokens {
 public:
  // Opens the pair found by find_token_files(path) and checks all of the index against itself and against the size of
  // PREFIX.bin: O(sequences). Throws Error{input} naming the file and the numbers that disagree.
  explicit IndexedTokens(const std::filesystem::path& path);

  int64_t documents() const { return documents_; }
  int64_t sequences() const { return sequences_; }
  int64_t tokens() const { return tokens_; }
  TokenDType dtype() const { return dtype_; }
  const std::filesystem::path& bin_path() const { return bin_.path(); }
  const std::filesystem::path& idx_path() const { return idx_.path(); }

  int64_t document_tokens(int64_t document) const;  // O(1)

  // Writes tokens [offset, offset + count) of the document to out[count]. Every id must lie in [0, vocab): else throws
  // Error{input} with file, document and offset. 0 <= offset, offset + count <= document_tokens(document).
  void read(int64_t document, int64_t offset, int64_t count, int64_t vocab, int32_t* out) const;
  // The same without the check, wide enough for every dtype.
  void read_unchecked(int64_t document, int64_t offset, int64_t count, int64_t* out) const;
  // Reads the whole file once and throws as read() at the first id outside [0, vocab).
  void check_ids(int64_t vocab) const;

  // 32 hex digits over the whole index, the size of PREFIX.bin and its content (all of it up to 1 MiB, else 256 blocks
  // of 4 KiB spread evenly); independent of path and time.
  std::string digest() const;

 private:
  explicit IndexedTokens(std::pair<MappedFile, MappedFile> pair);  // idx, bin
  int64_t size_at(int64_t sequence) const;                         // tokens
  int64_t pointer_at(int64_t sequence) const;                      // bytes
  int64_t border_at(int64_t i) const;                              // a sequence number
  void read_header();
  void check_documents() const;
  void check_sequences();
  void refuse_dtype(TokenDType fitting) const;
  const std::byte* at(int64_t document, int64_t offset, int64_t count) const;

  MappedFile idx_, bin_;
  TokenDType dtype_ = TokenDType::u8;
  int64_t documents_ = 0, sequences_ = 0, tokens_ = 0;
  const std::byte *sizes_ = nullptr, *pointers_ = nullptr, *borders_ = nullptr;
};

}  // namespace trainctl
