// lib/interop/byte_tokenizer.h -- the byte tokenizer in other programs' terms: byte-level BPE without a single merge.
// Ids 0 to 255 are the bytes; 256 ends a document; what a vocabulary has beyond is never produced by text.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl {

inline constexpr int64_t kByteTokens = 257;
inline constexpr const char* kEndOfDocument = "<|endoftext|>";

// How byte-level BPE spells a byte as one printable character (UTF-8): itself where Latin-1 has a visible character,
// else U+0100 and on, in the order of the bytes. Source: Radford et al. 2019 (GPT-2), its published tokenizer.
std::string byte_character(int byte);

// The text of every id of a vocabulary of `size` >= kByteTokens.
std::vector<std::string> byte_token_texts(int64_t size);

// tokenizer.json and tokenizer_config.json for a vocabulary of `size` >= kByteTokens.
nlohmann::ordered_json hf_byte_tokenizer(int64_t size);
nlohmann::ordered_json hf_byte_tokenizer_config();

// Whether the text of a tokenizer.json is, as JSON, exactly hf_byte_tokenizer(size): no name or class decides that.
bool is_hf_byte_tokenizer(std::string_view text, int64_t size);

}  // namespace trainctl
