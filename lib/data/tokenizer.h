// lib/data/tokenizer.h -- text to ids and back. One tokenizer so far: bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/data_config.h"

namespace trainctl {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::string_view kind() const = 0;
  virtual int64_t vocab() const = 0;            // largest id + 1
  virtual int32_t end_of_document() const = 0;  // the id that closes a document
  // True when encode(a + b) == encode(a) + encode(b) for every cut: then a document is encoded piece by piece.
  virtual bool concatenates() const = 0;
  virtual void encode(std::string_view text, std::vector<int32_t>& ids) const = 0;  // appends
  // The text of `ids`; end_of_document() gives no text. Throws Error{input} for an id outside the vocabulary.
  virtual std::string decode(std::span<const int32_t> ids) const = 0;
};

// ids 0..255 are the bytes of the text, 256 ends a document; vocab 257. Any byte string round-trips.
class ByteTokenizer final : public Tokenizer {
 public:
  std::string_view kind() const override { return "bytes"; }
  int64_t vocab() const override { return 257; }
  int32_t end_of_document() const override { return 256; }
  bool concatenates() const override { return true; }
  void encode(std::string_view text, std::vector<int32_t>& ids) const override;
  std::string decode(std::span<const int32_t> ids) const override;
};

// Throws Error{config} for an unknown kind.
std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerConfig& config);

}  // namespace trainctl
