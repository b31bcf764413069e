// tests/unit/data/inspect_test.cpp -- the numbers about a file, against hand counts.
#include "data/inspect.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data_test_support.h"
#include "support/catch.h"

using namespace trainctl;
using namespace trainctl::testing;
using Catch::Contains;

TEST_CASE("the summary counts documents, tokens and ids", "[data]") {
  const ScratchFolder folder;
  write_corpus(folder / "s", raw_corpus({{97, 98, 97, 256}, {}, {97, 256}, {98, 97, 97, 97, 97, 256}}, 8, 2));
  const TokenSummary s = summarize(IndexedTokens(folder / "s"), 2);
  CHECK(s.documents == 4);
  CHECK(s.empty_documents == 1);
  CHECK(s.tokens == 12);
  CHECK(s.bin_bytes == 24);
  CHECK(s.dtype == "uint16");
  CHECK(s.shortest_document == 0);
  CHECK(s.median_document == 2);
  CHECK(s.longest_document == 6);
  CHECK(s.mean_document == 3.0);
  CHECK(s.smallest_id == 97);
  CHECK(s.largest_id == 256);
  CHECK(s.distinct_ids == 3);
  CHECK(s.most_frequent == std::vector<IdCount>{{97, 7}, {256, 3}});
  const double entropy = -(7. / 12 * std::log2(7. / 12) + 3. / 12 * std::log2(3. / 12) + 2. / 12 * std::log2(2. / 12));
  CHECK(s.entropy_bits == Approx(entropy).epsilon(1e-12));
  CHECK(to_json(s)["most_frequent"][1]["id"] == 256);
  const ByteTokenizer bytes;
  CHECK_THAT(to_text(s, &bytes), Contains("uint16") && Contains("\"a\"") && Contains("<end>") && Contains("median 2"));
}

TEST_CASE("ids too large or negative to count show in the range", "[data]") {
  const ScratchFolder folder;
  write_corpus(folder / "w", raw_corpus({{-5, int64_t{1} << 50, 3}}, 5, 8));
  const TokenSummary s = summarize(IndexedTokens(folder / "w"));
  CHECK(s.smallest_id == -5);
  CHECK(s.largest_id == int64_t{1} << 50);
  CHECK(s.uncounted_tokens == 2);
  CHECK(s.most_frequent == std::vector<IdCount>{{3, 1}});
}

TEST_CASE("an empty file is summarised without a division by zero", "[data]") {
  const ScratchFolder folder;
  write_corpus(folder / "e", raw_corpus({}, 8, 2));
  const TokenSummary s = summarize(IndexedTokens(folder / "e"));
  CHECK(s.tokens == 0);
  CHECK(s.entropy_bits == 0);
  CHECK_THAT(to_text(s, nullptr), Contains("documents"));
  CHECK_THROWS_WITH(document_ids(IndexedTokens(folder / "e"), 0), Contains("no document"));
}

TEST_CASE("a document prints as text, and a wrong number names the range", "[data]") {
  const ScratchFolder folder;
  write_corpus(folder / "d", raw_corpus({{104, 105, 256}, {0xc3, 0xa4, 300}}, 8, 2));
  const IndexedTokens file(folder / "d");
  const ByteTokenizer bytes;
  CHECK(document_text(file, 0, bytes) == "hi<end>");
  CHECK(document_text(file, 1, bytes) == "\xc3\xa4<id 300>");
  CHECK(document_text(file, 0, bytes, 1) == "h");
  CHECK(document_ids(file, 0) == std::vector<int64_t>{104, 105, 256});
  CHECK_THROWS_WITH(document_text(file, 2, bytes), Contains("document 2") && Contains("0 to 1"));
  CHECK_THROWS_WITH(document_text(file, -1, bytes), Contains("document -1"));
}
