// tests/cli/data_command_test.cpp -- `trainctl data prepare|inspect` from text to ids and back.
#include <nlohmann/json.hpp>

#include "support/catch.h"
#include "support/subprocess.h"

namespace trainctl::testing {
namespace {

using Catch::Contains;

SubprocessResult data(const TemporaryFolder& folder, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {program("trainctl"), "data"});
  return run(arguments, {.environment = {}, .directory = folder.path()});
}

}  // namespace

TEST_CASE("text becomes token files that show the same text again", "[cli]") {
  const TemporaryFolder folder;
  folder.file("book.txt", "first document\n\nsecond, grün\n");
  const SubprocessResult made = data(folder, {"prepare", "book.txt", "--output", "out/book", "--json"});
  INFO(made.err);
  REQUIRE(made.exit_code == 0);
  CHECK(nlohmann::json::parse(made.out)["documents"] == 2);
  CHECK(data(folder, {"inspect", "out/book", "--document", "1"}).out == "second, grün<end>\n");
  CHECK_THAT(data(folder, {"inspect", "out/book.idx"}).out, Contains("documents"));
  const auto shown = nlohmann::json::parse(data(folder, {"inspect", "out/book", "--document", "0", "--json"}).out);
  CHECK(shown["ids"].size() == 15);
  CHECK(shown["ids"][0] == 'f');
  CHECK(shown["ids"][14] == 256);
}

TEST_CASE("JSONL goes by name, and a bad line is told with file and number", "[cli]") {
  const TemporaryFolder folder;
  folder.file("a.jsonl", "{\"body\": \"one\"}\n{\"body\": \"two\"}\n");
  CHECK(data(folder, {"prepare", "a.jsonl", "--text-key", "body", "--output", "a"}).exit_code == 0);
  folder.file("b.jsonl", "{\"text\": \"one\"}\n{\"text\": 7}\n");
  const SubprocessResult r = data(folder, {"prepare", "b.jsonl", "--output", "b"});
  CHECK(r.exit_code == 2);
  CHECK_THAT(r.err, Catch::StartsWith("trainctl: input: ") && Contains("b.jsonl:2"));
  CHECK_FALSE(std::filesystem::exists(folder.path() / "b.idx"));
}

TEST_CASE("missing files and impossible requests end with 2", "[cli]") {
  const TemporaryFolder folder;
  folder.file("t.txt", "x\n");
  CHECK(data(folder, {"prepare", "absent.txt", "--output", "a"}).exit_code == 2);
  CHECK(data(folder, {"prepare", "t.txt", "--output", "a", "--split", "words"}).exit_code == 2);
  CHECK(data(folder, {"prepare", "t.txt", "--output", "a", "--tokenizer", "magic"}).exit_code == 2);
  CHECK(data(folder, {"inspect", "absent"}).exit_code == 2);
  REQUIRE(data(folder, {"prepare", "t.txt", "--output", "a"}).exit_code == 0);
  CHECK(data(folder, {"inspect", "a", "--document", "1"}).exit_code == 2);
  CHECK(data(folder, {"inspect", "a", "--document", "-1"}).exit_code == 2);
}

TEST_CASE("prepare says which folder it made, and replaces token files only with --force", "[cli]") {
  const TemporaryFolder folder;
  folder.file("t.txt", "x\n");
  const SubprocessResult made = data(folder, {"prepare", "t.txt", "--output", "out/a"});
  CHECK(made.exit_code == 0);
  CHECK_THAT(made.out,
             Contains("1 document, 2 tokens") && Contains("made the folder out\n") && Contains("wrote out/a.bin"));
  const SubprocessResult refused = data(folder, {"prepare", "t.txt", "--output", "out/a"});
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.err, Contains("out/a.bin (4 B) and out/a.idx") && Contains("--force"));
  const SubprocessResult forced = data(folder, {"prepare", "t.txt", "--output", "out/a", "--force"});
  CHECK(forced.exit_code == 0);
  CHECK_THAT(forced.out, Contains("replaced out/a.bin") && !Contains("made the folder"));
}

}  // namespace trainctl::testing
