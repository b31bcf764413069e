// lib/interop/byte_tokenizer.cpp -- the 256 characters and the two files.
#include "interop/byte_tokenizer.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace trainctl {
namespace {

using nlohmann::ordered_json;

bool is_visible(int byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
}

}  // namespace

std::string byte_character(int byte) {
  int code = byte;
  if (!is_visible(byte)) {
    code = 0x100;
    for (int b = 0; b < byte; ++b) code += is_visible(b) ? 0 : 1;
  }
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
}

std::vector<std::string> byte_token_texts(int64_t size) {
  ensure(size >= kByteTokens, "a vocabulary that does not hold the byte tokenizer");
  std::vector<std::string> texts;
  for (int b = 0; b < 256; ++b) texts.push_back(byte_character(b));
  texts.emplace_back(kEndOfDocument);
  for (int64_t id = kByteTokens; id < size; ++id) texts.push_back(fmt::format("<|unused-{}|>", id));
  return texts;
}

ordered_json hf_byte_tokenizer(int64_t size) {
  ordered_json vocab = ordered_json::object();
  int64_t id = 0;
  for (const std::string& text : byte_token_texts(size)) vocab.push_back({text, id++});
  const ordered_json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens",
           {{{"id", kByteTokens - 1},
             {"content", kEndOfDocument},
             {"single_word", false},
             {"lstrip", false},
             {"rstrip", false},
             {"normalized", false},
             {"special", true}}}},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level},
          {"post_processor", nullptr},
          {"decoder", byte_level},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", ""},
            {"end_of_word_suffix", ""},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"vocab", std::move(vocab)},
            {"merges", ordered_json::array()}}}};
}

ordered_json hf_byte_tokenizer_config() {
  return {{"tokenizer_class", "PreTrainedTokenizerFast"},
          {"eos_token", kEndOfDocument},
          {"clean_up_tokenization_spaces", false},
          {"model_input_names", {"input_ids", "attention_mask"}}};
}

bool is_hf_byte_tokenizer(std::string_view text, int64_t size) {
  if (size < kByteTokens) return false;
  const auto given = nlohmann::json::parse(text, nullptr, false);
  return given.is_object() && given == nlohmann::json::parse(hf_byte_tokenizer(size).dump());
}

}  // namespace trainctl
