// lib/data/inspect.h -- what is inside token files: numbers about all of it, and single documents as text.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "data/indexed_tokens.h"
#include "data/tokenizer.h"

namespace trainctl {

struct IdCount {
  int64_t id = 0, count = 0;
  bool operator==(const IdCount&) const = default;
};

struct TokenSummary {
  std::string bin_path, idx_path, dtype, digest;
  int64_t documents = 0, sequences = 0, tokens = 0, bin_bytes = 0;
  int64_t empty_documents = 0;
  int64_t shortest_document = 0, median_document = 0, longest_document = 0;  // tokens; the lower median
  double mean_document = 0;
  int64_t smallest_id = 0, largest_id = 0;  // 0 when there is no token
  int64_t distinct_ids = 0;                 // of those counted
  double entropy_bits = 0;                  // of the counted ids' frequencies
  int64_t uncounted_tokens = 0;             // ids below 0 or from kCountedIds on: in the range, not in the counts
  std::vector<IdCount> most_frequent;       // by count, then by id
};

inline constexpr int64_t kCountedIds = int64_t{1} << 22;

// Reads the whole of PREFIX.bin once. `top`: entries of most_frequent.
TokenSummary summarize(const IndexedTokens& file, int64_t top = 10);

nlohmann::ordered_json to_json(const TokenSummary& summary);
// Lines "name   value" for people; ids are shown as text too when a tokenizer is given.
std::string to_text(const TokenSummary& summary, const Tokenizer* tokenizer);

// Document `number` as text, at most max_tokens of it (0: all). End-of-document ids show as <end>, ids outside the
// tokenizer's vocabulary as <id N>. Throws Error{usage} when there is no such document, naming the range.
std::string document_text(const IndexedTokens& file, int64_t number, const Tokenizer& tokenizer,
                          int64_t max_tokens = 0);
std::vector<int64_t> document_ids(const IndexedTokens& file, int64_t number, int64_t max_tokens = 0);

}  // namespace trainctl
