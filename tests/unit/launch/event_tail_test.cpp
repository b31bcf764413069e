// tests/unit/launch/event_tail_test.cpp -- each event once, whatever the writer does.
#include "launch/event_tail.h"

#include <fstream>

#include "support/catch.h"
#include "support/hostile_json.h"
#include "support/subprocess.h"

namespace trainctl {
namespace {

std::string event(const std::string& level, const std::string& text) {
  return R"({"step":1,"level":")" + level + R"(","text":")" + text + "\"}\n";
}

void append(const std::filesystem::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary | std::ios::app) << text;
}

std::vector<std::string> texts(const std::vector<RunEvent>& events) {
  std::vector<std::string> result;
  for (const RunEvent& e : events) result.push_back(e.level + ": " + e.text);
  return result;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("events are returned once, in order, and only when their line is complete", "[launch]") {
  const testing::TemporaryFolder folder;
  const auto file = folder.path() / "events.jsonl";
  EventTail tail(file);
  CHECK(tail.poll().empty());  // no file yet
  const std::string second = event("warning", "two");
  append(file, event("note", "one") + second.substr(0, 9));
  CHECK(texts(tail.poll()) == Texts{"note: one"});
  CHECK(tail.poll().empty());
  append(file, second.substr(9, 12));
  CHECK(tail.poll().empty());
  append(file, second.substr(21) + event("note", "three"));
  CHECK(texts(tail.poll()) == Texts{"warning: two", "note: three"});
  CHECK(tail.poll().empty());
}

TEST_CASE("events of an earlier run are not returned, not even when its last line was torn", "[launch]") {
  const testing::TemporaryFolder folder;
  const auto file = folder.path() / "events.jsonl";
  append(file, event("note", "old") + event("note", "torn").substr(0, 15));
  EventTail tail(file);
  CHECK(tail.poll().empty());
  append(file, event("note", "new"));
  CHECK(texts(tail.poll()) == Texts{"note: new"});
}

TEST_CASE("a file that was started anew is read from its start", "[launch]") {
  const testing::TemporaryFolder folder;
  const auto file = folder.path() / "events.jsonl";
  append(file, event("note", "a long text of the attempt before"));
  EventTail tail(file);
  std::filesystem::remove(file);
  CHECK(tail.poll().empty());
  append(file, event("note", "new"));
  CHECK(texts(tail.poll()) == Texts{"note: new"});
}

TEST_CASE("lines that are no events are passed over, and those after them are not lost", "[launch]") {
  const testing::TemporaryFolder folder;
  const auto file = folder.path() / "events.jsonl";
  EventTail tail(file);
  for (const std::string bad :
       {"not JSON", "{\"level\":\"note\"", "[1]", "7", "", "{\"level\":\"note\"}", "{\"text\":\"x\"}",
        "{\"level\":1,\"text\":\"x\"}", "{\"level\":\"note\",\"text\":null}", "\xff\xfe"}) {
    INFO(bad);
    append(file, bad + "\n" + event("note", "good"));
    CHECK(texts(tail.poll()) == Texts{"note: good"});
  }
}

TEST_CASE("lines that are no events, whatever they are, are passed over", "[launch]") {
  const testing::TemporaryFolder folder;
  const auto file = folder.path() / "events.jsonl";
  EventTail tail(file);
  for (const std::string& text : testing::hostile_json()) append(file, text + "\n" + event("note", "x"));
  CHECK(texts(tail.poll()) == Texts(testing::hostile_json().size(), "note: x"));
}

}  // namespace trainctl
