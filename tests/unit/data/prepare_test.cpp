// tests/unit/data/prepare_test.cpp -- text and JSONL to token files: documents, bytes, and errors with file and line.
#include "data/prepare.h"

#include <algorithm>
#include <iterator>
#include <sstream>

#include "base/error.h"
#include "data/inspect.h"
#include "data_test_support.h"
#include "support/catch.h"

using namespace trainctl;
using namespace trainctl::testing;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

// Text in, documents out (decoded, "<end>" included).
std::vector<std::string> documents_of(const std::string& file_name, const std::string& content, PrepareOptions options,
                                      PrepareStatistics* stats = nullptr,
                                      const Tokenizer& tokenizer = ByteTokenizer()) {
  const ScratchFolder folder;
  write_bytes(folder / file_name, content);
  options.inputs = {folder / file_name};
  options.output = folder / "new/folder/out";
  const PrepareStatistics got = prepare_tokens(options, tokenizer);
  if (stats) *stats = got;
  const IndexedTokens file(got.written.bin);
  std::vector<std::string> documents;
  for (int64_t d = 0; d < file.documents(); ++d) documents.push_back(document_text(file, d, tokenizer));
  CHECK(got.documents == file.documents());
  CHECK(got.tokens == file.tokens());
  return documents;
}

using Documents = std::vector<std::string>;

// Upper-cases whole documents: what a tokenizer that must see all of a text at once would notice.
class WholeTokenizer final : public Tokenizer {
 public:
  std::string_view kind() const override { return "whole"; }
  int64_t vocab() const override { return 257; }
  int32_t end_of_document() const override { return 256; }
  bool concatenates() const override { return false; }
  void encode(std::string_view text, std::vector<int32_t>& ids) const override {
    ++calls;
    ByteTokenizer().encode(text, ids);
  }
  std::string decode(std::span<const int32_t> ids) const override { return ByteTokenizer().decode(ids); }
  mutable int calls = 0;
};

}  // namespace

TEST_CASE("the byte tokenizer gives back any bytes", "[data]") {
  std::string text;
  for (int i = 0; i < 256; ++i) text.push_back(static_cast<char>(i));
  const ByteTokenizer tokenizer;
  std::vector<int32_t> ids;
  tokenizer.encode(text, ids);
  ids.push_back(tokenizer.end_of_document());
  CHECK(ids.front() == 0);
  CHECK(ids[255] == 255);
  CHECK(tokenizer.decode(ids) == text);
  const std::vector<int32_t> outside = {257};
  CHECK_THROWS_WITH(tokenizer.decode(outside), Contains("257"));
  CHECK(make_tokenizer({})->vocab() == 257);
  TokenizerConfig unknown;
  unknown.kind = "byte";
  CHECK_THROWS_WITH(make_tokenizer(unknown), Contains("\"byte\"") && Contains("\"bytes\""));
}

TEST_CASE("blank lines part documents, and line ends inside a document stay", "[data]") {
  PrepareOptions options;
  CHECK(documents_of("a.txt", "one\ntwo\n\n\n \t\nthree\n", options) == Documents{"one\ntwo<end>", "three<end>"});
  CHECK(documents_of("a.txt", "\n\none", options) == Documents{"one<end>"});
  CHECK(documents_of("a.txt", "one\r\ntwo\r\n\r\nthree\r\n", options) == Documents{"one\r\ntwo<end>", "three<end>"});
  options.append_end_of_document = false;
  CHECK(documents_of("a.txt", "one\n\ntwo", options) == Documents{"one", "two"});
}

TEST_CASE("a file as one document keeps every byte; lines are documents without their ends", "[data]") {
  PrepareOptions options;
  options.split = TextSplit::none;
  const std::string text("a\r\n\n\xff\0z\n", 8);
  CHECK(documents_of("a.bin.txt", text, options) == Documents{text + "<end>"});
  options.split = TextSplit::lines;
  CHECK(documents_of("a.txt", "a\r\n\nbc\n d", options) == Documents{"a<end>", "bc<end>", " d<end>"});
  CHECK(text_split_from_name("blank-lines") == TextSplit::blank_lines);
  CHECK_THROWS_WITH(text_split_from_name("paragraphs"), Contains("none, blank-lines or lines"));
}

TEST_CASE("JSONL gives one document per object, with escapes decoded", "[data]") {
  PrepareOptions options;
  PrepareStatistics stats;
  CHECK(documents_of("a.jsonl", "{\"text\": \"a\\nb\\u20ac\", \"n\": [1]}\n\n{\"text\":\"\"}\r\n{\"text\":\"c\"}",
                     options, &stats) == Documents{"a\nb\xe2\x82\xac<end>", "c<end>"});
  CHECK(stats.documents == 2);
  CHECK(stats.empty_documents == 1);
  CHECK(stats.bytes == 7);
  CHECK(stats.tokens == 9);
  CHECK(stats.files == 1);
  CHECK(stats.dtype == TokenDType::u16);
  options.text_key = "body";
  CHECK(documents_of("a.json", "{\"text\":\"no\",\"body\":\"yes\"}", options) == Documents{"yes<end>"});
  options.force_format = true;
  CHECK(documents_of("a.txt", "x", PrepareOptions{}) == Documents{"x<end>"});
  CHECK(documents_of("a.jsonl", "{\"plain\": 1}", options) == Documents{"{\"plain\": 1}<end>"});
}

TEST_CASE("a bad JSONL line is refused with file and line, and leaves nothing behind", "[data]") {
  const ScratchFolder folder;
  const auto message = [&](const std::string& line) -> std::string {
    write_bytes(folder / "b.jsonl", "{\"text\":\"good\"}\n" + line + "\n{\"text\":\"good\"}\n");
    PrepareOptions options;
    options.inputs = {folder / "b.jsonl"};
    options.output = folder / "out";
    try {
      prepare_tokens(options, ByteTokenizer());
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::input);
      CHECK_FALSE(fs::exists(folder / "out.bin"));
      CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);
      return error.what();
    }
    return "";
  };
  CHECK(message("{\"text\":\"fine\"}").empty());
  fs::remove(folder / "out.bin");
  fs::remove(folder / "out.idx");
  CHECK_THAT(message("{\"text\": \"cut"), Contains("b.jsonl:2:"));
  CHECK_THAT(message("[1, 2]"), Contains("b.jsonl:2: this line is of type array"));
  CHECK_THAT(message("{\"txet\": \"a\"}"), Contains("b.jsonl:2: no key \"text\"") && Contains("txet"));
  CHECK_THAT(message("{\"text\": 5}"), Contains("b.jsonl:2: \"text\" is of type integer"));
  CHECK_THAT(message("{\"text\": \"a\"} trailing"), Contains("b.jsonl:2:"));
  CHECK_THAT(message("{\"text\": \"\xff\"}"), Contains("b.jsonl:2:"));
  CHECK_THAT(message(std::string(100000, '[')), Contains("b.jsonl:2:"));
  // Every line of a message names the file, and a line of rubbish does not give a page of them.
  for (const int bad : {2, 5, 200}) {
    std::istringstream lines(message("{\"text\": \"" + std::string(static_cast<size_t>(bad), '\xff') + "\"}"));
    int count = 0;
    for (std::string line; std::getline(lines, line); ++count) CHECK_THAT(line, Contains("b.jsonl:2:"));
    CHECK(count == std::min(bad, 6));
  }
}

TEST_CASE("inputs that cannot be read are refused before anything is written", "[data]") {
  const ScratchFolder folder;
  PrepareOptions options;
  options.output = folder / "out";
  CHECK_THROWS_WITH(prepare_tokens(options, ByteTokenizer()), Contains("no input file"));
  options.inputs = {folder / "missing.txt"};
  CHECK_THROWS_WITH(prepare_tokens(options, ByteTokenizer()), Contains("missing.txt: no such file"));
  options.inputs = {folder.path()};
  CHECK_THROWS_WITH(prepare_tokens(options, ByteTokenizer()), Contains("a folder"));
  write_bytes(folder / "empty.txt", "");
  options.inputs = {folder / "empty.txt"};
  CHECK_THROWS_WITH(prepare_tokens(options, ByteTokenizer()), Contains("no document"));
  write_bytes(folder / "out.bin", "text in a file with the output's name");
  options.inputs = {folder / "out.bin"};
  CHECK_THROWS_WITH(prepare_tokens(options, ByteTokenizer()), Contains("would be overwritten"));
}

TEST_CASE("large texts stream through in pieces, and whole-document tokenizers see whole documents", "[data]") {
  std::string text;
  for (int i = 0; text.size() < (size_t{5} << 20) + 17; ++i) text += "line " + std::to_string(i) + "\n";
  PrepareOptions options;
  options.split = TextSplit::none;
  options.max_sequence_tokens = 1 << 20;
  int64_t last = 0;
  int calls = 0;
  options.progress = [&](const PrepareProgress& p) {
    ++calls;
    CHECK(p.bytes_done > last);
    CHECK(p.bytes_total == static_cast<int64_t>(text.size()));
    last = p.bytes_done;
  };
  CHECK(documents_of("big.txt", text, options) == Documents{text + "<end>"});
  CHECK(calls == 2);
  CHECK(last == static_cast<int64_t>(text.size()));
  options.progress = nullptr;
  const WholeTokenizer whole;
  CHECK(documents_of("big.txt", text, options, nullptr, whole) == Documents{text + "<end>"});
  CHECK(whole.calls == 1);
  options.split = TextSplit::lines;
  const Documents lines = documents_of("big.txt", text, options);
  CHECK(static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) == lines.size());
  CHECK(lines[123456] == "line 123456<end>");
}

TEST_CASE("several inputs follow each other, each in its own format", "[data]") {
  const ScratchFolder folder;
  write_bytes(folder / "1.txt", "one\n\ntwo");
  write_bytes(folder / "2.jsonl", "{\"text\":\"three\"}");
  PrepareOptions options;
  options.inputs = {folder / "2.jsonl", folder / "1.txt"};
  options.output = folder / "out.idx";
  const PrepareStatistics stats = prepare_tokens(options, ByteTokenizer());
  CHECK(stats.written.bin == folder / "out.bin");
  CHECK(stats.files == 2);
  const IndexedTokens file(folder / "out");
  CHECK(document_text(file, 0, ByteTokenizer()) == "three<end>");
  CHECK(document_text(file, 2, ByteTokenizer()) == "two<end>");
}

TEST_CASE("older token files are only replaced when that is asked for", "[data]") {
  const ScratchFolder folder;
  write_bytes(folder / "a.txt", "first");
  write_bytes(folder / "b.txt", "second");
  PrepareOptions options;
  options.inputs = {folder / "a.txt"};
  options.output = folder / "out";
  CHECK_FALSE(prepare_tokens(options, ByteTokenizer()).replaced);
  options.inputs = {folder / "b.txt"};
  const auto text = [&] { return document_text(IndexedTokens(folder / "out"), 0, ByteTokenizer()); };
  CHECK_THROWS_WITH(prepare_tokens(options, ByteTokenizer()),
                    Contains("out.bin (12 B) and ") && Contains("out.idx") && Contains("--force"));
  CHECK(text() == "first<end>");
  options.overwrite = true;
  CHECK(prepare_tokens(options, ByteTokenizer()).replaced);
  CHECK(text() == "second<end>");
  // One of the two is enough: it may be what an interrupted copy left.
  fs::remove(folder / "out.idx");
  options.overwrite = false;
  CHECK_THROWS_WITH(prepare_tokens(options, ByteTokenizer()), Contains("out.bin") && !Contains("out.idx"));
  options.overwrite = true;
  fs::create_directory(folder / "out.idx");
  CHECK_THROWS_WITH(prepare_tokens(options, ByteTokenizer()), Contains("out.idx is a folder"));
}

TEST_CASE("folders made for the output are told, and taken away again when it fails", "[data]") {
  const ScratchFolder folder;
  write_bytes(folder / "a.txt", "first");
  write_bytes(folder / "empty.txt", "");
  PrepareOptions options;
  options.output = folder / "new/deep/out";
  options.inputs = {folder / "empty.txt"};
  CHECK_THROWS_WITH(prepare_tokens(options, ByteTokenizer()), Contains("no document in 1 file of 0 bytes"));
  CHECK_FALSE(fs::exists(folder / "new"));
  options.inputs = {folder / "a.txt"};
  CHECK(prepare_tokens(options, ByteTokenizer()).created_folder == folder / "new");
  options.output = folder / "new/deep/other";
  CHECK(prepare_tokens(options, ByteTokenizer()).created_folder.empty());
}
