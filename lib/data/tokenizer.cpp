// lib/data/tokenizer.cpp -- the byte tokenizer and the choice by name.
#include "data/tokenizer.h"

#include <fmt/format.h>

#include "base/error.h"

namespace trainctl {

void ByteTokenizer::encode(std::string_view text, std::vector<int32_t>& ids) const {
  ids.reserve(ids.size() + text.size());
  for (const char ch : text) ids.push_back(static_cast<unsigned char>(ch));
}

std::string ByteTokenizer::decode(std::span<const int32_t> ids) const {
  std::string text;
  text.reserve(ids.size());
  for (const int32_t id : ids) {
    if (id < 0 || id > 256) {
      fail(ErrorKind::input, fmt::format("token id {} is outside the byte tokenizer's vocabulary of 257 ids", id));
    }
    if (id < 256) text.push_back(static_cast<char>(static_cast<unsigned char>(id)));
  }
  return text;
}

std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerConfig& config) {
  if (config.kind == "bytes") return std::make_unique<ByteTokenizer>();
  fail(ErrorKind::config,
       fmt::format("data.tokenizer.kind is \"{}\"; the tokenizers known are: \"bytes\"", config.kind));
}

}  // namespace trainctl
