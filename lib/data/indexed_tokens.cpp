// lib/data/indexed_tokens.cpp -- the reader of Megatron-LM's .bin/.idx: checks first, then plain pointer arithmetic.
#include "data/indexed_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/units.h"
#include "data/token_paths.h"

namespace trainctl {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little endian");

// The parts of an index are not aligned (the header has 34 bytes): always load through memcpy.
template <class T>
T load(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}

template <class F>
decltype(auto) with_type(TokenDType dtype, F&& f) {
  switch (dtype) {
    case TokenDType::u8:
      return f(uint8_t{});
    case TokenDType::i8:
      return f(int8_t{});
    case TokenDType::i16:
      return f(int16_t{});
    case TokenDType::i32:
      return f(int32_t{});
    case TokenDType::i64:
      return f(int64_t{});
    case TokenDType::u16:
      return f(uint16_t{});
  }
  fail(ErrorKind::internal, "unknown token dtype");
}

std::optional<TokenDType> dtype_from_code(uint8_t code) {
  if (code >= 1 && code <= 5) return static_cast<TokenDType>(code);
  if (code == 8) return TokenDType::u16;
  return std::nullopt;
}

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& what) {
  fail(ErrorKind::input, fmt::format("{}: {}", file.string(), what));
}

// Both ends of a pair in one constructor expression: the members are maps and cannot be empty first.
std::pair<MappedFile, MappedFile> open_pair(const std::filesystem::path& path) {
  const TokenPaths paths = find_token_files(path);
  return {MappedFile(paths.idx, false), MappedFile(paths.bin, true)};
}

bool starts_with_magic(const MappedFile& file) {
  return file.size() >= 9 && std::memcmp(file.bytes().data(), kIndexMagic.data(), 9) == 0;
}

}  // namespace

std::string_view name(TokenDType dtype) {
  switch (dtype) {
    case TokenDType::u8:
      return "uint8";
    case TokenDType::i8:
      return "int8";
    case TokenDType::i16:
      return "int16";
    case TokenDType::i32:
      return "int32";
    case TokenDType::i64:
      return "int64";
    case TokenDType::u16:
      return "uint16";
  }
  return "unknown";
}

int64_t bytes_of(TokenDType dtype) {
  return with_type(dtype, [](auto zero) { return static_cast<int64_t>(sizeof(zero)); });
}

int64_t largest_id(TokenDType dtype) {
  return with_type(dtype, [](auto zero) { return static_cast<int64_t>(std::numeric_limits<decltype(zero)>::max()); });
}

TokenDType token_dtype_for(int64_t vocab) {
  if (vocab < 1 || vocab > int64_t{1} << 31) {
    fail(ErrorKind::input, fmt::format("a vocabulary of {} ids cannot be stored; it must have 1 to 2147483648", vocab));
  }
  return vocab <= 65536 ? TokenDType::u16 : TokenDType::i32;
}

IndexedTokens::IndexedTokens(const std::filesystem::path& path) : IndexedTokens(open_pair(path)) {}

IndexedTokens::IndexedTokens(std::pair<MappedFile, MappedFile> pair)
    : idx_(std::move(pair.first)), bin_(std::move(pair.second)) {
  read_header();
  check_documents();
  check_sequences();
}

void IndexedTokens::read_header() {
  const std::byte* p = idx_.bytes().data();
  if (!starts_with_magic(idx_)) {
    if (starts_with_magic(bin_)) {
      refuse(idx_.path(), fmt::format("no index, but {} is one: the two files are swapped", bin_.path().string()));
    }
    if (idx_.size() >= 6 && std::memcmp(p, "TNTIDX", 6) == 0) {
      refuse(idx_.path(), "an index of fairseq's older format (TNTIDX); only Megatron's MMIDIDX is read");
    }
    refuse(idx_.path(), idx_.size() == 0 ? std::string("the index is empty (0 bytes)")
                                         : "does not start with MMIDIDX: not an index of token files");
  }
  if (idx_.size() < kIndexHeaderBytes) {
    refuse(idx_.path(), fmt::format("cut off: {} bytes, the header alone has {}", idx_.size(), kIndexHeaderBytes));
  }
  const uint64_t version = load<uint64_t>(p + 9);
  if (version != kIndexVersion) refuse(idx_.path(), fmt::format("index version {}; only 1 is known", version));
  const uint8_t code = load<uint8_t>(p + 17);
  const std::optional<TokenDType> dtype = dtype_from_code(code);
  if (!dtype) {
    refuse(idx_.path(), fmt::format("dtype code {}{}; token ids have 1 (uint8), 2 (int8), 3 (int16), 4 (int32), "
                                    "5 (int64) or 8 (uint16)",
                                    code,
                                    code == 6   ? " (float64)"
                                    : code == 7 ? " (float32)"
                                                : ""));
  }
  dtype_ = *dtype;
  const uint64_t sequences = load<uint64_t>(p + 18), borders = load<uint64_t>(p + 26);
  const auto body = static_cast<uint64_t>(idx_.size() - kIndexHeaderBytes);
  const bool countable = sequences <= body / 12 && borders <= body / 8;  // so that nothing below overflows
  const uint64_t needed = countable ? sequences * 12 + borders * 8 : 0;
  if (!countable || (body != needed && body != needed + sequences)) {
    const std::string need =
        countable ? fmt::format("{}", needed + kIndexHeaderBytes) : std::string("more than there are");
    refuse(idx_.path(), fmt::format("sequences: {}, document borders: {}; they need {} bytes, the file has {}: it is "
                                    "cut off or damaged",
                                    sequences, borders, need, idx_.size()));
  }
  if (borders == 0) refuse(idx_.path(), "0 document borders; even an index without documents has 1");
  sequences_ = static_cast<int64_t>(sequences);
  documents_ = static_cast<int64_t>(borders) - 1;
  sizes_ = p + kIndexHeaderBytes;
  pointers_ = sizes_ + sequences_ * 4;
  borders_ = pointers_ + sequences_ * 8;
}

int64_t IndexedTokens::size_at(int64_t sequence) const { return load<int32_t>(sizes_ + sequence * 4); }
int64_t IndexedTokens::pointer_at(int64_t sequence) const { return load<int64_t>(pointers_ + sequence * 8); }
int64_t IndexedTokens::border_at(int64_t i) const { return load<int64_t>(borders_ + i * 8); }

void IndexedTokens::check_documents() const {
  if (border_at(0) != 0) refuse(idx_.path(), fmt::format("document 0 starts at sequence {}, not at 0", border_at(0)));
  for (int64_t d = 0; d < documents_; ++d) {
    if (border_at(d + 1) >= border_at(d)) continue;
    refuse(idx_.path(),
           fmt::format("document {} starts at sequence {} and ends at {}", d, border_at(d), border_at(d + 1)));
  }
  if (border_at(documents_) != sequences_) {
    refuse(idx_.path(), fmt::format("the last document ends at sequence {}, but the index has {}",
                                    border_at(documents_), counted(sequences_, "sequence")));
  }
}

void IndexedTokens::refuse_dtype(TokenDType fitting) const {
  refuse(idx_.path(),
         fmt::format(
             "the dtype code says {} ({} per token), but {} in the {} of {} and the byte offsets fit tokens of {}: "
             "the code is wrong, or the files do not belong together",
             name(dtype_), counted(bytes_of(dtype_), "byte"), counted(tokens_, "token"), counted(bin_.size(), "byte"),
             bin_.path().string(), counted(bytes_of(fitting), "byte")));
}

void IndexedTokens::check_sequences() {
  // Which token widths explain the byte offsets without a gap? Tells a wrong dtype code from a wrong offset.
  constexpr TokenDType kWidths[] = {TokenDType::u8, TokenDType::u16, TokenDType::i32, TokenDType::i64};
  bool fits[4] = {true, true, true, true};
  for (int64_t s = 0; s < sequences_; ++s) {
    const int64_t size = size_at(s);
    if (size < 0) refuse(idx_.path(), fmt::format("sequence {} has {} tokens", s, size));
    for (size_t w = 0; w < 4; ++w) fits[w] = fits[w] && pointer_at(s) == tokens_ * bytes_of(kWidths[w]);
    tokens_ += size;
    if (tokens_ > bin_.size()) {  // also keeps every product below far from overflow
      refuse(bin_.path(),
             fmt::format("cut off: {}, but sequences 0 to {} of {} alone have {}", counted(bin_.size(), "byte"), s,
                         idx_.path().string(), counted(tokens_, "token")));
    }
  }
  const int64_t width = bytes_of(dtype_);
  bool dense = false;
  std::optional<TokenDType> other;
  for (size_t w = 0; w < 4; ++w) {
    if (bytes_of(kWidths[w]) == width)
      dense = fits[w];
    else if (fits[w] && tokens_ > 0 && tokens_ * bytes_of(kWidths[w]) == bin_.size())
      other = kWidths[w];
  }
  if (other && !(dense && tokens_ * width == bin_.size())) refuse_dtype(*other);

  int64_t end = 0, document = 0;
  for (int64_t s = 0; s < sequences_; ++s) {
    const int64_t pointer = pointer_at(s), size = size_at(s);
    if (pointer < end) {
      refuse(idx_.path(), fmt::format("sequence {} starts at byte {}, before byte {} where the one before it ends", s,
                                      pointer, end));
    }
    if (pointer > bin_.size() || size > (bin_.size() - pointer) / width) {
      refuse(bin_.path(), fmt::format("cut off: sequence {} of {} needs {} of {} from byte {}, the file has {}", s,
                                      idx_.path().string(), counted(size, "token"), name(dtype_), pointer,
                                      counted(bin_.size(), "byte")));
    }
    while (border_at(document + 1) <= s) ++document;
    if (s > border_at(document) && pointer != end) {
      refuse(idx_.path(), fmt::format("document {} has a hole: sequence {} starts at byte {}, the one before it ends "
                                      "at byte {}",
                                      document, s, pointer, end));
    }
    end = pointer + size * width;
  }
  if (dense && end != bin_.size()) {
    refuse(bin_.path(), fmt::format("{}, but {} describes {} of {}, {}: the two files do not belong together",
                                    counted(bin_.size(), "byte"), idx_.path().string(), counted(tokens_, "token"),
                                    name(dtype_), counted(end, "byte")));
  }
}

int64_t IndexedTokens::document_tokens(int64_t document) const {
  ensure(document >= 0 && document < documents_, "document number out of range");
  const int64_t first = border_at(document), last = border_at(document + 1) - 1;
  if (first == last) return size_at(first);
  if (first > last) return 0;
  return (pointer_at(last) - pointer_at(first)) / bytes_of(dtype_) + size_at(last);
}

const std::byte* IndexedTokens::at(int64_t document, int64_t offset, int64_t count) const {
  const int64_t length = document_tokens(document);
  ensure(offset >= 0 && count >= 0 && offset <= length && count <= length - offset, "tokens outside the document");
  if (count == 0) return nullptr;
  return bin_.bytes().data() + pointer_at(border_at(document)) + offset * bytes_of(dtype_);
}

void IndexedTokens::read(int64_t document, int64_t offset, int64_t count, int64_t vocab, int32_t* out) const {
  ensure(vocab >= 1 && vocab <= int64_t{1} << 31, "vocabulary out of range");
  const std::byte* from = at(document, offset, count);
  with_type(dtype_, [&](auto zero) {
    using T = decltype(zero);
    bool bad = false;
    for (int64_t i = 0; i < count; ++i) {
      const auto id = static_cast<int64_t>(load<T>(from + i * static_cast<int64_t>(sizeof(T))));
      bad |= id < 0 || id >= vocab;
      out[i] = static_cast<int32_t>(id);
    }
    if (!bad) [[likely]]
      return;
    for (int64_t i = 0; i < count; ++i) {
      const auto id = static_cast<int64_t>(load<T>(from + i * static_cast<int64_t>(sizeof(T))));
      if (id >= 0 && id < vocab) continue;
      refuse(bin_.path(),
             fmt::format("token id {} in document {} at offset {} is outside the vocabulary of {} ids "
                         "(0..{}); the file holds {}. Prepare it again with the tokenizer of this recipe, "
                         "or set the vocabulary to at least {}",
                         id, document, offset + i, vocab, vocab - 1, name(dtype_), id < 0 ? vocab : id + 1));
    }
  });
}

void IndexedTokens::read_unchecked(int64_t document, int64_t offset, int64_t count, int64_t* out) const {
  const std::byte* from = at(document, offset, count);
  with_type(dtype_, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0; i < count; ++i) {
      out[i] = static_cast<int64_t>(load<T>(from + i * static_cast<int64_t>(sizeof(T))));
    }
  });
}

void IndexedTokens::check_ids(int64_t vocab) const {
  std::vector<int32_t> buffer(1 << 16);
  const auto chunk = static_cast<int64_t>(buffer.size());
  for (int64_t d = 0; d < documents_; ++d) {
    const int64_t length = document_tokens(d);
    for (int64_t o = 0; o < length; o += chunk) read(d, o, std::min(chunk, length - o), vocab, buffer.data());
  }
}

std::string IndexedTokens::digest() const {
  constexpr int64_t kWhole = 1 << 20, kBlock = 4096, kBlocks = 256;
  std::string parts = xxh128_hex(idx_.bytes().data(), idx_.bytes().size()) + fmt::format(" {}", bin_.size());
  if (bin_.size() <= kWhole) {
    parts += ' ' + xxh128_hex(bin_.bytes().data(), bin_.bytes().size());
  } else {
    const int64_t room = bin_.size() - kBlock;
    for (int64_t i = 0; i < kBlocks; ++i) {
      const int64_t begin = room / (kBlocks - 1) * i + room % (kBlocks - 1) * i / (kBlocks - 1);
      parts += ' ' + xxh128_hex(bin_.bytes().data() + begin, static_cast<size_t>(kBlock));
    }
  }
  return xxh128_hex(parts.data(), parts.size());
}

}  // namespace trainctl
