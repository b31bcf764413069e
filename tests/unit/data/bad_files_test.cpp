// tests/unit/data/bad_files_test.cpp -- damaged token files: a precise error, never a crash.
#include <random>

#include "base/error.h"
#include "data/indexed_tokens.h"
#include "data_test_support.h"
#include "support/catch.h"

using namespace trainctl;
using namespace trainctl::testing;
using Catch::Contains;

namespace {

const std::vector<std::vector<int64_t>> kDocuments = {{1, 2, 3}, {4}, {5, 6, 7, 8}};

// Opens a corpus after `change` has spoiled it; the message of the error, "" when it opens.
template <class F>
std::string message_after(F change, uint8_t code = 8, int width = 2) {
  const ScratchFolder folder;
  RawCorpus corpus = raw_corpus(kDocuments, code, width);
  change(corpus);
  write_corpus(folder / "x", corpus);
  try {
    const IndexedTokens file(folder / "x");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("each field of the index that is wrong is named with its numbers", "[data]") {
  using C = RawCorpus&;
  CHECK(message_after([](C) {}).empty());
  CHECK_THAT(message_after([](C c) { c.index.magic = "MMIDIDY" + std::string(2, '\0'); }), Contains("MMIDIDX"));
  CHECK_THAT(message_after([](C c) { c.index.magic = "TNTIDX" + std::string(3, '\0'); }), Contains("fairseq"));
  CHECK_THAT(message_after([](C c) { c.index.version = 2; }), Contains("index version 2"));
  CHECK_THAT(message_after([](C c) { c.index.code = 0; }), Contains("dtype code 0"));
  CHECK_THAT(message_after([](C c) { c.index.code = 6; }), Contains("dtype code 6 (float64)"));
  CHECK_THAT(message_after([](C c) { c.index.code = 7; }), Contains("dtype code 7 (float32)"));
  CHECK_THAT(message_after([](C c) { c.index.code = 9; }), Contains("dtype code 9"));
  CHECK_THAT(message_after([](C c) { c.index.claimed_sequences = 4; }), Contains("sequences: 4,") && Contains("x.idx"));
  CHECK_THAT(message_after([](C c) { c.index.claimed_sequences = int64_t{1} << 62; }), Contains("4611686018427387904"));
  CHECK_THAT(message_after([](C c) { c.index.claimed_borders = 3; }), Contains("document borders: 3;"));
  CHECK_THAT(message_after([](C c) { c.index.borders.clear(); }), Contains("0 document borders"));
  CHECK_THAT(message_after([](C c) { c.index.borders[0] = 1; }), Contains("document 0 starts at sequence 1"));
  CHECK_THAT(message_after([](C c) { c.index.borders[2] = 0; }),
             Contains("document 1 starts at sequence 1 and ends at 0"));
  CHECK_THAT(message_after([](C c) { c.index.borders[3] = 2; }), Contains("ends at sequence 2, but the index has 3"));
  CHECK_THAT(message_after([](C c) { c.index.borders[3] = 5; }), Contains("ends at sequence 5, but the index has 3"));
  CHECK_THAT(message_after([](C c) { c.index.sizes[1] = -1; }), Contains("sequence 1 has -1 tokens"));
  CHECK_THAT(message_after([](C c) { c.index.sizes[1] = 2147483647; }), Contains("x.bin") && Contains("2147483650"));
  CHECK_THAT(message_after([](C c) { c.index.sizes[2] = 5; }), Contains("sequence 2") && Contains("16 bytes"));
  CHECK_THAT(message_after([](C c) { c.index.sizes[2] = 3; }), Contains("do not belong together"));
  CHECK_THAT(message_after([](C c) { c.index.pointers[1] = 5; }),
             Contains("sequence 1 starts at byte 5, before byte 6"));
  CHECK_THAT(message_after([](C c) { c.index.pointers[0] = -2; }), Contains("starts at byte -2"));
  CHECK_THAT(message_after([](C c) { c.index.pointers[2] = int64_t{1} << 62; }),
             Contains("from byte 4611686018427387904"));
  CHECK_THAT(message_after([](C c) {
               c.index.borders = {0, 3};  // one document of three sequences, with a hole in it
               c.index.pointers = {0, 6, 9};
               c.bin += "?";
             }),
             Contains("document 0 has a hole"));
}

TEST_CASE("a token file that is cut off or too long is refused with both sizes", "[data]") {
  CHECK_THAT(message_after([](RawCorpus& c) { c.bin.pop_back(); }), Contains("x.bin") && Contains("15 bytes"));
  CHECK_THAT(message_after([](RawCorpus& c) { c.bin += "ab"; }), Contains("18 bytes") && Contains("16 bytes"));
  CHECK_THAT(message_after([](RawCorpus& c) { c.bin.clear(); }), Contains("x.bin") && Contains("0 bytes"));
}

TEST_CASE("a dtype code of another width than the data is told from the offsets", "[data]") {
  for (const uint8_t wrong : {uint8_t{1}, uint8_t{2}, uint8_t{4}, uint8_t{5}}) {
    INFO("code " << int(wrong));
    CHECK_THAT(message_after([&](RawCorpus& c) { c.index.code = wrong; }),
               Contains("x.idx") && Contains("fit tokens of 2 bytes"));
  }
  CHECK_THAT(message_after([](RawCorpus& c) { c.index.code = 8; }, 4, 4), Contains("fit tokens of 4 bytes"));
}

TEST_CASE("swapped, empty and foreign files are told apart", "[data]") {
  const ScratchFolder folder;
  const RawCorpus corpus = raw_corpus(kDocuments, 8, 2);
  write_bytes(folder / "s.bin", corpus.index.bytes());
  write_bytes(folder / "s.idx", corpus.bin);
  CHECK_THROWS_WITH(IndexedTokens(folder / "s"), Contains("swapped") && Contains("s.idx"));
  write_bytes(folder / "e.bin", "");
  write_bytes(folder / "e.idx", "");
  CHECK_THROWS_WITH(IndexedTokens(folder / "e"), Contains("e.idx: the index is empty"));
  write_bytes(folder / "t.bin", "text");
  write_bytes(folder / "t.idx", "text");
  CHECK_THROWS_WITH(IndexedTokens(folder / "t"), Contains("not an index"));
}

TEST_CASE("every truncation of an index is refused", "[data]") {
  const ScratchFolder folder;
  const RawCorpus corpus = raw_corpus(kDocuments, 8, 2);
  write_corpus(folder / "x", corpus);
  const std::string whole = corpus.index.bytes();
  for (size_t n = 0; n < whole.size(); ++n) {
    write_bytes(folder / "x.idx", whole.substr(0, n));
    INFO(n << " bytes left");
    CHECK_THROWS_AS(IndexedTokens(folder / "x"), Error);
  }
}

TEST_CASE("an index with random damage is refused or readable, never a crash", "[data]") {
  const ScratchFolder folder;
  const RawCorpus corpus = raw_corpus({{1, 2, 3}, {}, {4}, {5, 6, 7, 8}, {9, 10}}, 8, 2);
  write_corpus(folder / "x", corpus);
  const std::string whole = corpus.index.bytes();
  std::mt19937 random(7);
  int refused = 0;
  for (int round = 0; round < 800; ++round) {
    std::string damaged = whole;
    for (auto flips = 1 + random() % 3; flips > 0; --flips) {
      const size_t at = round % 2 ? random() % damaged.size() : 9 + random() % (damaged.size() - 9);
      damaged[at] =
          static_cast<char>(random() % 4 ? damaged[at] ^ (1 << random() % 8) : static_cast<int>(random() % 256));
    }
    if (random() % 8 == 0) damaged.resize(random() % (damaged.size() + 1));
    write_bytes(folder / "x.idx", damaged);
    try {
      const IndexedTokens file(folder / "x");
      CHECK(static_cast<int64_t>(all_ids(file).size()) == file.tokens());
    } catch (const Error& error) {
      ++refused;
      if (error.kind() != ErrorKind::input) FAIL("unexpected kind of error: " << error.what());
    }
  }
  CHECK(refused > 400);
}
