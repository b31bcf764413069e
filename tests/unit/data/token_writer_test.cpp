// tests/unit/data/token_writer_test.cpp -- what is written reads back, in every dtype; nothing half-written stays.
#include "data/token_writer.h"

#include <sys/wait.h>

#include <cstdlib>

#include "base/error.h"
#include "data_test_support.h"
#include "support/catch.h"

using namespace trainctl;
using namespace trainctl::testing;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

size_t files_in(const ScratchFolder& folder) {
  size_t n = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder.path())) ++n;
  return n;
}

}  // namespace

TEST_CASE("documents survive writing and reading in every dtype and any cut into sequences", "[data]") {
  const ScratchFolder folder;
  const std::vector<std::vector<int32_t>> documents = {{5, 0, 100}, {}, {7}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {}};
  for (const TokenDType dtype :
       {TokenDType::u8, TokenDType::i8, TokenDType::i16, TokenDType::i32, TokenDType::i64, TokenDType::u16}) {
    for (const int64_t cut : {int64_t{1}, int64_t{4}, int64_t{11}, int64_t{2147483647}}) {
      if (cut < 11 && dtype != TokenDType::u16) continue;  // each file costs some fsyncs
      INFO(name(dtype) << ", sequences of " << cut);
      TokenWriter writer(folder / "r", {.vocab = 128, .max_sequence_tokens = cut}, dtype);
      for (const auto& document : documents) {
        writer.append(std::span(document).first(document.size() / 2));
        writer.append(std::span(document).subspan(document.size() / 2));
        writer.end_document();
      }
      writer.finish();
      const IndexedTokens file(folder / "r");
      CHECK(file.dtype() == dtype);
      REQUIRE(file.documents() == static_cast<int64_t>(documents.size()));
      for (size_t d = 0; d < documents.size(); ++d) {
        std::vector<int32_t> got(documents[d].size());
        REQUIRE(file.document_tokens(static_cast<int64_t>(d)) == static_cast<int64_t>(got.size()));
        file.read(static_cast<int64_t>(d), 0, static_cast<int64_t>(got.size()), 128, got.data());
        CHECK(got == documents[d]);
      }
    }
  }
  CHECK(files_in(folder) == 2);
}

TEST_CASE("the writer gives the very bytes of the independent writer", "[data]") {
  const ScratchFolder folder;
  TokenWriter writer(folder / "w", {.vocab = 60000});
  int64_t place = 0;
  for (const int64_t length : {3, 1, 0, 7, 2, 4}) {
    for (int64_t i = 0; i < length; ++i, ++place) {
      const auto id = static_cast<int32_t>(37 * place * 201 % 60000);
      writer.append({&id, 1});
    }
    writer.end_document();
  }
  writer.finish();
  for (const char* extension : {".bin", ".idx"}) {
    CHECK(read_bytes(folder / ("w" + std::string(extension))) ==
          read_bytes(source_path("tests/unit/data/fixtures/uint16") + extension));
  }
}

TEST_CASE("the dtype follows the vocabulary and never wraps an id", "[data]") {
  CHECK(token_dtype_for(257) == TokenDType::u16);
  CHECK(token_dtype_for(65536) == TokenDType::u16);
  CHECK(token_dtype_for(65537) == TokenDType::i32);
  CHECK(token_dtype_for(int64_t{1} << 31) == TokenDType::i32);
  CHECK_THROWS_AS(token_dtype_for(0), Error);
  CHECK_THROWS_AS(token_dtype_for((int64_t{1} << 31) + 1), Error);

  const ScratchFolder folder;
  TokenWriter writer(folder / "v", {.vocab = 70000});
  const std::vector<int32_t> ids = {65535, 65536, 69999};
  writer.append(ids);
  const int32_t over = 70000, negative = -1;
  CHECK_THROWS_WITH(writer.append({&over, 1}), Contains("token id 70000 in document 0 at offset 3"));
  CHECK_THROWS_WITH(writer.append({&negative, 1}), Contains("token id -1"));
  writer.end_document();
  writer.finish();
  CHECK(all_ids(IndexedTokens(folder / "v")) == std::vector<int64_t>{65535, 65536, 69999});
  CHECK_THROWS_WITH(TokenWriter(folder / "u", {.vocab = 70000}, TokenDType::u16),
                    Contains("70000") && Contains("uint16") && Contains("65535") && Contains("int32"));
}

TEST_CASE("a writer that does not finish leaves older files untouched and nothing new", "[data]") {
  const ScratchFolder folder;
  write_corpus(folder / "x", raw_corpus({{1, 2}}, 8, 2));
  {
    TokenWriter writer(folder / "x", {.vocab = 10});
    const int32_t id = 3;
    writer.append({&id, 1});
    writer.end_document();
  }
  CHECK(files_in(folder) == 2);
  CHECK(all_ids(IndexedTokens(folder / "x")) == std::vector<int64_t>{1, 2});
  CHECK_THROWS_WITH(TokenWriter(folder / "no/such/folder", {.vocab = 10}), Contains("cannot create"));
}

TEST_CASE("a Python reader of the format agrees with what was written", "[data]") {
  const ScratchFolder folder;
  TokenWriter writer(folder / "p", {.vocab = 70000, .max_sequence_tokens = 3});
  for (const auto& document :
       {std::vector<int32_t>{1, 2, 3, 4, 69999}, std::vector<int32_t>{}, std::vector<int32_t>{9}}) {
    writer.append(document);
    writer.end_document();
  }
  writer.finish();
  const std::string command = "python3 '" + source_path("tests/unit/data/fixtures/read_tokens.py") + "' '" +
                              (folder / "p").string() + "' > '" + (folder / "out").string() + "'";
  const int status = std::system(command.c_str());
  REQUIRE(WIFEXITED(status));
  REQUIRE(WEXITSTATUS(status) == 0);
  CHECK(read_bytes(folder / "out") == "int32 sizes 3 2 0 1 borders 0 2 3 4\n1 2 3\n4 69999\n\n9\n");
}
