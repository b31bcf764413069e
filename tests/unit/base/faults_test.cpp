// tests/unit/base/faults_test.cpp -- lists of faults, and the nearest name.
#include "base/error.h"
#include "base/json_node.h"
#include "base/text_line.h"
#include "support/catch.h"

using namespace trainctl;

TEST_CASE("faults are listed in the order of the file, those without a position last", "[base][faults]") {
  const std::vector<Fault> faults = {{"c", {0, 0}, "third"}, {"b", {3, 1}, "second"}, {"", {2, 9}, "first"}};
  CHECK(format_faults("r.json", faults) == "r.json:2:9: first\nr.json:3:1: b: second\nr.json: c: third");
  CHECK_NOTHROW(refuse_faults("r.json", {}));
  CHECK_THROWS_WITH(refuse_faults("r.json", faults), Catch::Contains("second"));
}

TEST_CASE("the nearest name tolerates slips of the hand and no more", "[base][faults]") {
  const std::vector<std::string> names = {"lr", "weight_decay", "schedule", "d_model", "warmup_steps"};
  CHECK(nearest("weight-decay", names) == "weight_decay");
  CHECK(nearest("WeightDecay", names) == "weight_decay");
  CHECK(nearest("wieght_decay", names) == "weight_decay");
  CHECK(nearest("schedul", names) == "schedule");
  CHECK(nearest("l", names) == "lr");
  CHECK(nearest("dmodel", names) == "d_model");
  CHECK(nearest("banana", names).empty());
  CHECK(nearest("", names).empty());
  CHECK(nearest("anything", {}).empty());
  CHECK(nearest(std::string(100000, 'x'), names).empty());
}

TEST_CASE("quoted text shows control characters", "[base][faults]") {
  for (const char* line : {"", "runs/a b", "r\xc3\xa9"}) CHECK(is_text_line(line));
  for (const char* text : {"a\n", "\ta", "a\x7f", "\xff", "a\xc3", "\xed\xa0\x80", "\x01"})
    CHECK_FALSE(is_text_line(text));
  CHECK(in_quotes("a\"b\\c\n\t\x01") == "\"a\\\"b\\\\c\\n\\t\\u0001\"");
}
