// tests/unit/data/token_paths_test.cpp -- prefix or either file, any legal name; a message that shows what was tried.
#include "data/token_paths.h"

#include "base/error.h"
#include "data_test_support.h"
#include "support/catch.h"

using namespace trainctl;
using namespace trainctl::testing;
using Catch::Contains;
namespace fs = std::filesystem;

TEST_CASE("prefix, .bin and .idx all open the same pair, whatever the name looks like", "[data]") {
  const ScratchFolder folder;
  const std::string names[] = {
      "x",       "with space", "v1.2.final",         "-dash", "\xc3\xbcml\xc3\xa4ut\xe2\x82\xac", "a.bin",
      ".hidden", "tab\there",  std::string(200, 'n')};
  for (const std::string& name : names) {
    INFO(name);
    write_corpus(folder / name, raw_corpus({{1, 2}}, 8, 2));
    for (const char* extension : {"", ".bin", ".idx"}) {
      const TokenPaths found = find_token_files(folder / (name + extension));
      CHECK(found.bin == folder / (name + ".bin"));
      CHECK(found.idx == folder / (name + ".idx"));
    }
  }
}

TEST_CASE("symbolic links to both files, or to one of them, are followed", "[data]") {
  const ScratchFolder folder;
  fs::create_directories(folder / "store");
  write_corpus(folder / "store/real", raw_corpus({{1, 2}}, 8, 2));
  fs::create_symlink(folder / "store/real.bin", folder / "both.bin");
  fs::create_symlink(folder / "store/real.idx", folder / "both.idx");
  CHECK(find_token_files(folder / "both").bin == folder / "both.bin");
  CHECK(IndexedTokens(folder / "both").tokens() == 2);
  fs::create_symlink(folder / "store/real.bin", folder / "one.bin");
  CHECK(IndexedTokens(folder / "one").tokens() == 2);
  CHECK(IndexedTokens(folder / "one.bin").tokens() == 2);
  fs::create_symlink(folder / "store/real.idx", folder / "bare");
  CHECK(IndexedTokens(folder / "bare").tokens() == 2);
  fs::create_symlink(folder / "nowhere", folder / "dangling.bin");
  CHECK_THROWS_WITH(find_token_files(folder / "dangling"), Contains("a link to nothing"));
}

TEST_CASE("the error lists every file looked for and its state", "[data]") {
  const ScratchFolder folder;
  CHECK_THROWS_WITH(find_token_files(""), Contains("empty"));
  CHECK_THROWS_WITH(find_token_files(folder / "no"), Contains("no.bin (missing)") && Contains("no.idx (missing)"));
  write_bytes(folder / "half.bin", "ab");
  CHECK_THROWS_WITH(find_token_files(folder / "half"),
                    Contains("half.bin (present)") && Contains("half.idx (missing)"));
  CHECK_THROWS_WITH(find_token_files(folder / "half.bin"), Contains("half.bin.bin (missing)") &&
                                                               Contains("half.bin (present)") &&
                                                               Contains("half.idx (missing)"));
  fs::create_directories(folder / "dir.bin");
  write_bytes(folder / "dir.idx", "ab");
  CHECK_THROWS_WITH(find_token_files(folder / "dir"), Contains("dir.bin (a folder, not a file)"));
  CHECK_THROWS_WITH(find_token_files(folder.path()), Contains("missing"));
  CHECK_THROWS_WITH(find_token_files(folder / std::string(5000, 'n')), Contains("too long"));
}

TEST_CASE("the names to write drop one extension and refuse an empty name", "[data]") {
  CHECK(token_files_to_write("out/a").bin == "out/a.bin");
  CHECK(token_files_to_write("out/a.idx").idx == "out/a.idx");
  CHECK(token_files_to_write("out/a.v1.bin").bin == "out/a.v1.bin");
  for (const char* name : {"", "out/", ".", "out/.."}) CHECK_THROWS_AS(token_files_to_write(name), Error);
}
