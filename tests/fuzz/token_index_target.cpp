// tests/fuzz/token_index_target.cpp -- Megatron-LM's PREFIX.idx. An input is two bytes, the size of PREFIX.bin, and the
// index.
#include <algorithm>

#include "base/error.h"
#include "data/indexed_tokens.h"
#include "fuzz/target.h"
#include "unit/checkpoint/fixture.h"

namespace trainctl::fuzz {
namespace {

template <class T>
void put(std::string& to, T value) {
  for (size_t i = 0; i < sizeof value; ++i) to += static_cast<char>(static_cast<uint64_t>(value) >> (8 * i) & 0xff);
}

std::string index_of(TokenDType dtype, const std::vector<int32_t>& sizes, const std::vector<int64_t>& borders) {
  std::string input;
  int64_t tokens = 0;
  for (const int32_t size : sizes) tokens += size;
  put(input, static_cast<uint16_t>(tokens * bytes_of(dtype)));
  input += kIndexMagic;
  put(input, kIndexVersion);
  put(input, static_cast<uint8_t>(dtype));
  put(input, static_cast<uint64_t>(sizes.size()));
  put(input, static_cast<uint64_t>(borders.size()));
  for (const int32_t size : sizes) put(input, size);
  int64_t at = 0;
  for (const int32_t size : sizes) {
    put(input, at);
    at += size * bytes_of(dtype);
  }
  for (const int64_t border : borders) put(input, border);
  return input;
}

}  // namespace

bool accepts(std::string_view input) {
  static const testing::ScratchFolder folder;
  static const std::filesystem::path prefix = folder.path() / "tokens";
  if (input.size() < 2) return false;
  const size_t bin_bytes =
      static_cast<unsigned char>(input[0]) | static_cast<size_t>(static_cast<unsigned char>(input[1])) << 8;
  std::string bin(bin_bytes, '\0');
  for (size_t i = 0; i < bin.size(); ++i) bin[i] = static_cast<char>(i);
  testing::put_bytes(folder.path() / "tokens.bin", bin);
  testing::put_bytes(folder.path() / "tokens.idx", std::string(input.substr(2)));
  try {
    const IndexedTokens tokens(prefix);
    int64_t sum = 0;
    std::vector<int64_t> ids;
    for (int64_t d = 0; d < tokens.documents(); ++d) {
      const int64_t count = tokens.document_tokens(d);
      law(count >= 0, "a document has no negative length");
      sum += count;
      ids.resize(static_cast<size_t>(count));
      tokens.read_unchecked(d, 0, count, ids.data());
    }
    law(sum == tokens.tokens(), "the documents are all tokens");
    law(tokens.digest().size() == 32, "an index has a digest");
    return true;
  } catch (const Error& e) {
    law(e.kind() == ErrorKind::input, "token files are refused as a fault of the input");
    return false;
  }
}

std::vector<std::string> valid_inputs() {
  return {index_of(TokenDType::u16, {3, 0, 5}, {0, 1, 3}), index_of(TokenDType::i32, {4}, {0, 1}),
          index_of(TokenDType::u8, {1, 2, 3, 4}, {0, 2, 2, 4}), index_of(TokenDType::i64, {2, 2}, {0, 1, 2})};
}

}  // namespace trainctl::fuzz
