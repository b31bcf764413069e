// lib/data/inspect.cpp -- one pass over the tokens, one sort over the document lengths.
#include "data/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/units.h"

namespace trainctl {
namespace {

// One id as a quoted word: bytes that do not print are shown as \xNN.
std::string shown(int64_t id, const Tokenizer& tokenizer) {
  if (id == tokenizer.end_of_document()) return "<end>";
  if (id < 0 || id >= tokenizer.vocab()) return "<outside the vocabulary>";
  const auto narrow = static_cast<int32_t>(id);
  std::string text = "\"";
  for (const char ch : tokenizer.decode({&narrow, 1})) {
    const auto byte = static_cast<unsigned char>(ch);
    text += byte >= 0x20 && byte < 0x7f ? std::string(1, ch) : fmt::format("\\x{:02x}", byte);
  }
  return text + '"';
}

void count_ids(const IndexedTokens& file, TokenSummary& s, int64_t top) {
  std::vector<int64_t> counts(static_cast<size_t>(std::min(kCountedIds - 1, largest_id(file.dtype())) + 1), 0);
  const auto counted = static_cast<int64_t>(counts.size());
  std::vector<int64_t> buffer(1 << 16);
  const auto chunk = static_cast<int64_t>(buffer.size());
  bool any = false;
  for (int64_t d = 0; d < file.documents(); ++d) {
    const int64_t length = file.document_tokens(d);
    for (int64_t o = 0; o < length; o += chunk) {
      const int64_t n = std::min(chunk, length - o);
      file.read_unchecked(d, o, n, buffer.data());
      for (int64_t i = 0; i < n; ++i) {
        const int64_t id = buffer[static_cast<size_t>(i)];
        s.smallest_id = any ? std::min(s.smallest_id, id) : id;
        s.largest_id = any ? std::max(s.largest_id, id) : id;
        any = true;
        if (id >= 0 && id < counted) {
          ++counts[static_cast<size_t>(id)];
        } else {
          ++s.uncounted_tokens;
        }
      }
    }
  }
  const auto total = static_cast<double>(file.tokens() - s.uncounted_tokens);
  for (int64_t id = 0; id < counted; ++id) {
    const int64_t count = counts[static_cast<size_t>(id)];
    if (count == 0) continue;
    s.most_frequent.push_back({id, count});
    const double p = static_cast<double>(count) / total;
    s.entropy_bits -= p * std::log2(p);
  }
  s.distinct_ids = static_cast<int64_t>(s.most_frequent.size());
  std::sort(s.most_frequent.begin(), s.most_frequent.end(),
            [](const IdCount& a, const IdCount& b) { return a.count != b.count ? a.count > b.count : a.id < b.id; });
  s.most_frequent.resize(static_cast<size_t>(std::clamp<int64_t>(top, 0, s.distinct_ids)));
}

}  // namespace

TokenSummary summarize(const IndexedTokens& file, int64_t top) {
  TokenSummary s;
  s.bin_path = file.bin_path().string();
  s.idx_path = file.idx_path().string();
  s.dtype = name(file.dtype());
  s.digest = file.digest();
  s.documents = file.documents();
  s.sequences = file.sequences();
  s.tokens = file.tokens();
  s.bin_bytes = file.tokens() * bytes_of(file.dtype());
  std::vector<int64_t> lengths;
  lengths.reserve(static_cast<size_t>(s.documents));
  for (int64_t d = 0; d < s.documents; ++d) lengths.push_back(file.document_tokens(d));
  if (!lengths.empty()) {
    std::sort(lengths.begin(), lengths.end());
    s.empty_documents = std::upper_bound(lengths.begin(), lengths.end(), 0) - lengths.begin();
    s.shortest_document = lengths.front();
    s.median_document = lengths[(lengths.size() - 1) / 2];
    s.longest_document = lengths.back();
    s.mean_document = static_cast<double>(s.tokens) / static_cast<double>(s.documents);
  }
  count_ids(file, s, top);
  return s;
}

nlohmann::ordered_json to_json(const TokenSummary& s) {
  nlohmann::ordered_json frequent = nlohmann::ordered_json::array();
  for (const IdCount& entry : s.most_frequent) frequent.push_back({{"id", entry.id}, {"count", entry.count}});
  return {{"bin", s.bin_path},
          {"idx", s.idx_path},
          {"dtype", s.dtype},
          {"documents", s.documents},
          {"sequences", s.sequences},
          {"tokens", s.tokens},
          {"bin_bytes", s.bin_bytes},
          {"empty_documents", s.empty_documents},
          {"shortest_document_tokens", s.shortest_document},
          {"median_document_tokens", s.median_document},
          {"mean_document_tokens", s.mean_document},
          {"longest_document_tokens", s.longest_document},
          {"smallest_id", s.smallest_id},
          {"largest_id", s.largest_id},
          {"distinct_ids", s.distinct_ids},
          {"entropy_bits", s.entropy_bits},
          {"uncounted_tokens", s.uncounted_tokens},
          {"most_frequent", frequent},
          {"digest", s.digest}};
}

std::string to_text(const TokenSummary& s, const Tokenizer* tokenizer) {
  std::string text;
  const auto line = [&text](std::string_view what, const std::string& value) {
    text += fmt::format("{:<18}{}\n", what, value);
  };
  line("tokens in", s.bin_path);
  line("index", s.idx_path);
  line("dtype", s.dtype);
  line("documents", s.empty_documents == 0 ? fmt::format("{}", s.documents)
                                           : fmt::format("{} ({} of them empty)", s.documents, s.empty_documents));
  if (s.sequences != s.documents) line("sequences", fmt::format("{}", s.sequences));
  line("tokens", fmt::format("{} ({})", s.tokens, human_bytes(s.bin_bytes)));
  line("document tokens", fmt::format("shortest {}, median {}, mean {:.1f}, longest {}", s.shortest_document,
                                      s.median_document, s.mean_document, s.longest_document));
  line("ids", fmt::format("{} to {}, {} distinct, entropy {:.3f} bits", s.smallest_id, s.largest_id, s.distinct_ids,
                          s.entropy_bits));
  if (s.uncounted_tokens > 0) {
    line("", fmt::format("{} ids below 0 or above {}", counted(s.uncounted_tokens, "token has", "tokens have"),
                         kCountedIds - 1));
  }
  line("digest", s.digest);
  text += "most frequent ids\n";
  for (const IdCount& entry : s.most_frequent) {
    text += fmt::format("  {:>8} {:>14} {:6.2f} %  {}\n", entry.id, entry.count,
                        100.0 * static_cast<double>(entry.count) / static_cast<double>(s.tokens),
                        tokenizer ? shown(entry.id, *tokenizer) : "");
  }
  return text;
}

std::vector<int64_t> document_ids(const IndexedTokens& file, int64_t number, int64_t max_tokens) {
  if (number < 0 || number >= file.documents()) {
    fail(ErrorKind::usage, file.documents() == 0 ? fmt::format("document {} does not exist: {} has no document", number,
                                                               file.idx_path().string())
                                                 : fmt::format("document {} does not exist: {} has documents 0 to {}",
                                                               number, file.idx_path().string(), file.documents() - 1));
  }
  int64_t length = file.document_tokens(number);
  if (max_tokens > 0) length = std::min(length, max_tokens);
  std::vector<int64_t> ids(static_cast<size_t>(length));
  file.read_unchecked(number, 0, length, ids.data());
  return ids;
}

std::string document_text(const IndexedTokens& file, int64_t number, const Tokenizer& tokenizer, int64_t max_tokens) {
  std::string text;
  std::vector<int32_t> known;  // decoded together: a character may span several ids
  const auto flush = [&] {
    text += tokenizer.decode(known);
    known.clear();
  };
  for (const int64_t id : document_ids(file, number, max_tokens)) {
    if (id >= 0 && id < tokenizer.vocab() && id != tokenizer.end_of_document()) {
      known.push_back(static_cast<int32_t>(id));
      continue;
    }
    flush();
    text += id == tokenizer.end_of_document() ? "<end>" : fmt::format("<id {}>", id);
  }
  flush();
  return text;
}

}  // namespace trainctl
