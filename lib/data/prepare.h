// lib/data/prepare.h -- text and JSONL to token files, streaming: memory does not grow with the input.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "data/indexed_tokens.h"
#include "data/token_paths.h"
#include "data/tokenizer.h"

namespace trainctl {

enum class InputFormat : uint8_t { text, jsonl };

// Where documents of a text file end. Bytes are taken as they are.
enum class TextSplit : uint8_t {
  none,         // one file, one document
  blank_lines,  // one or more lines of white space; a document keeps the line ends inside it, not its last one
  lines,        // each line, without its line end
};
std::string_view name(TextSplit split);                          // "none", "blank-lines", "lines"
TextSplit text_split_from_name(std::string_view word);           // throws Error{usage} listing the names
InputFormat input_format_of(const std::filesystem::path& path);  // .jsonl, .ndjson, .json: jsonl; else text

struct PrepareProgress {
  int64_t bytes_done = 0, bytes_total = 0;  // of all inputs
  int64_t documents = 0, tokens = 0;
};

struct PrepareOptions {
  std::vector<std::filesystem::path> inputs;  // read in this order; the format goes by each name unless `format` is set
  std::filesystem::path output;               // PREFIX (a trailing .bin or .idx is dropped); its folder is made
  bool force_format = false;
  InputFormat format = InputFormat::text;  // when force_format
  TextSplit split = TextSplit::blank_lines;
  bool overwrite = false;                                // token files that are at `output` already
  std::string text_key = "text";                         // JSONL: the member with the document
  bool append_end_of_document = true;                    // the tokenizer's end-of-document id closes each document
  std::function<void(const PrepareProgress&)> progress;  // about every 4 MiB and at the end
  int64_t max_sequence_tokens = std::numeric_limits<int32_t>::max();
};

struct PrepareStatistics {
  int64_t files = 0;
  int64_t documents = 0;
  int64_t empty_documents = 0;  // texts without a byte (JSONL) or empty files: skipped
  int64_t tokens = 0;           // end-of-document tokens included
  int64_t bytes = 0;            // of text in the documents
  int64_t input_bytes = 0;      // of the files
  TokenDType dtype = TokenDType::u16;
  TokenPaths written;
  bool replaced = false;                 // older token files, with `overwrite`
  std::filesystem::path created_folder;  // the topmost folder that had to be made for the output; empty: none
};

// JSONL: one object per line with a string at text_key; lines of white space are skipped. Throws Error{input} with
// file:line for anything else, for unreadable inputs and when no document is found; Error{usage} naming older token
// files that would be overwritten; Error{environment} when the output cannot be written. On an error nothing is left
// behind and older output is untouched.
PrepareStatistics prepare_tokens(const PrepareOptions& options, const Tokenizer& tokenizer);

}  // namespace trainctl
