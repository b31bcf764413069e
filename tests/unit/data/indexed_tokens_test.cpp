// tests/unit/data/indexed_tokens_test.cpp -- reading token files: every dtype, 64-bit offsets, ids against the
// vocabulary.
#include "data/indexed_tokens.h"

#include <algorithm>
#include <fstream>
#include <numeric>

#include "base/error.h"
#include "data_test_support.h"
#include "support/catch.h"

using namespace trainctl;
using namespace trainctl::testing;
using Catch::Contains;

TEST_CASE("files made by an independent writer read equal for every dtype", "[data]") {
  struct Case {
    const char* file;
    TokenDType dtype;
    int64_t limit;
  };
  const int64_t lengths[] = {3, 1, 0, 7, 2, 4};
  for (const Case& c : {Case{"uint8", TokenDType::u8, 200}, Case{"int8", TokenDType::i8, 120},
                        Case{"int16", TokenDType::i16, 30000}, Case{"int32", TokenDType::i32, 100000},
                        Case{"int64", TokenDType::i64, 100000}, Case{"uint16", TokenDType::u16, 60000}}) {
    INFO(c.file);
    const IndexedTokens file(source_path("tests/unit/data/fixtures/") + c.file);
    CHECK(file.dtype() == c.dtype);
    CHECK(file.documents() == 6);
    CHECK(file.sequences() == (c.dtype == TokenDType::i32 ? 7 : 6));
    CHECK(file.tokens() == 17);
    int64_t place = 0;
    for (int64_t d = 0; d < 6; ++d) {
      REQUIRE(file.document_tokens(d) == lengths[d]);
      for (int64_t o = 0; o < lengths[d]; ++o, ++place) {
        int32_t id = -1;
        file.read(d, o, 1, c.limit, &id);
        CHECK(id == 37 * place * (c.limit / 300 + 1) % c.limit);
      }
    }
    CHECK_NOTHROW(file.check_ids(c.limit));
  }
}

TEST_CASE("negative numbers of signed files and ids above 16 bits are read as they are", "[data]") {
  const ScratchFolder folder;
  write_corpus(folder / "i64", raw_corpus({{-1, int64_t{1} << 40, 7}}, 5, 8));
  const IndexedTokens file(folder / "i64");
  CHECK(all_ids(file) == std::vector<int64_t>{-1, int64_t{1} << 40, 7});
  int32_t out[3];
  CHECK_THROWS_WITH(file.read(0, 0, 3, 100, out), Contains("token id -1 in document 0 at offset 0"));
  CHECK_THROWS_WITH(file.read(0, 1, 2, 100, out), Contains("1099511627776") && Contains("offset 1"));
}

TEST_CASE("an id outside the vocabulary is refused with file, document and offset", "[data]") {
  const ScratchFolder folder;
  write_corpus(folder / "c", raw_corpus({{1, 2}, {3, 256, 257}}, 8, 2));
  const IndexedTokens file(folder / "c");
  std::vector<int32_t> out(3);
  file.read(1, 0, 3, 258, out.data());
  CHECK(out == std::vector<int32_t>{3, 256, 257});
  CHECK_THROWS_WITH(file.read(1, 0, 3, 257, out.data()),
                    Contains("c.bin") && Contains("token id 257 in document 1 at offset 2") && Contains("257 ids"));
  CHECK_THROWS_WITH(file.check_ids(256), Contains("token id 256 in document 1 at offset 1"));
  try {
    file.check_ids(256);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
  }
}

TEST_CASE("offsets past 2^31 and 2^32 bytes are read where they are", "[data]") {
  const ScratchFolder folder;
  const int64_t far[] = {0, (int64_t{1} << 31) + 2, (int64_t{1} << 32) + 10, (int64_t{6} << 30) - 6};
  RawIndex index;
  for (const int64_t p : far) {
    index.sizes.push_back(3);
    index.pointers.push_back(p);
    index.borders.push_back(index.borders.back() + 1);
  }
  write_bytes(folder / "far.idx", index.bytes());
  {
    std::ofstream bin(folder / "far.bin", std::ios::binary);
    for (int d = 0; d < 4; ++d) {
      bin.seekp(far[d]);
      const std::string bytes{static_cast<char>(d + 1), 0, static_cast<char>(d + 2), 0, static_cast<char>(d + 3), 0};
      bin.write(bytes.data(), 6);
    }
  }
  REQUIRE(std::filesystem::file_size(folder / "far.bin") == uint64_t{6} << 30);
  const IndexedTokens file(folder / "far");
  for (int d = 0; d < 4; ++d) {
    std::vector<int32_t> out(3);
    file.read(d, 0, 3, 10, out.data());
    CHECK(out == std::vector<int32_t>{d + 1, d + 2, d + 3});
  }
  CHECK(file.digest().size() == 32);
}

TEST_CASE("more than 2^31 tokens in a few long documents are counted and reached", "[data]") {
  const ScratchFolder folder;
  constexpr int64_t kLong = 2147483647;
  RawIndex index;
  index.code = 1;
  index.sizes = {static_cast<int32_t>(kLong), static_cast<int32_t>(kLong), 5};
  index.pointers = {0, kLong, 2 * kLong};
  index.borders = {0, 2, 3};  // the first document is two sequences: 2^32 - 2 tokens
  write_bytes(folder / "long.idx", index.bytes());
  {
    std::ofstream bin(folder / "long.bin", std::ios::binary);
    bin.seekp(2 * kLong - 1);
    bin.write("\x09\x01\x02\x03\x04\x05", 6);
  }
  const IndexedTokens file(folder / "long");
  CHECK(file.tokens() == 2 * kLong + 5);
  CHECK(file.document_tokens(0) == 2 * kLong);
  std::vector<int32_t> out(5);
  file.read(0, 2 * kLong - 5, 5, 10, out.data());
  CHECK(out == std::vector<int32_t>{0, 0, 0, 0, 9});
  file.read(1, 0, 5, 10, out.data());
  CHECK(out == std::vector<int32_t>{1, 2, 3, 4, 5});
}

TEST_CASE("the modes of a multimodal index are skipped", "[data]") {
  const ScratchFolder folder;
  const RawCorpus corpus = raw_corpus({{1, 2}, {3}}, 8, 2);
  write_corpus(folder / "m", corpus);
  write_bytes(folder / "m.idx", corpus.index.bytes() + std::string(2, '\1'));
  CHECK(all_ids(IndexedTokens(folder / "m")) == std::vector<int64_t>{1, 2, 3});
}

TEST_CASE("files without documents are legal and empty", "[data]") {
  const ScratchFolder folder;
  write_corpus(folder / "none", raw_corpus({}, 8, 2));
  const IndexedTokens file(folder / "none");
  CHECK(file.documents() == 0);
  CHECK(file.tokens() == 0);
}

TEST_CASE("the digest follows the content, not the name or the time", "[data]") {
  const ScratchFolder folder;
  write_corpus(folder / "a", raw_corpus({{1, 2}, {3}}, 8, 2));
  write_corpus(folder / "b", raw_corpus({{1, 2}, {3}}, 8, 2));
  write_corpus(folder / "other-ids", raw_corpus({{1, 2}, {4}}, 8, 2));
  write_corpus(folder / "other-cut", raw_corpus({{1}, {2, 3}}, 8, 2));
  const std::string digest = IndexedTokens(folder / "a").digest();
  CHECK(digest == IndexedTokens(folder / "b").digest());
  CHECK(digest != IndexedTokens(folder / "other-ids").digest());
  CHECK(digest != IndexedTokens(folder / "other-cut").digest());

  // Above 1 MiB only samples of the content are read: other text of the same size must still differ.
  std::vector<int64_t> ids(1 << 20);
  std::iota(ids.begin(), ids.end(), 0);
  for (int64_t& id : ids) id = id * 7 % 251;
  write_corpus(folder / "big", raw_corpus({ids}, 8, 2));
  for (int64_t& id : ids) id = (id + 1) % 251;
  write_corpus(folder / "big-other", raw_corpus({ids}, 8, 2));
  CHECK(IndexedTokens(folder / "big").digest() != IndexedTokens(folder / "big-other").digest());
}
