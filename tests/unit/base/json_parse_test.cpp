// tests/unit/base/json_parse_test.cpp -- strict JSON: positions, and a clear refusal of everything that is not JSON.
#include "base/error.h"
#include "base/json_node.h"
#include "support/catch.h"

using namespace trainctl;

namespace {

std::string refusal(std::string_view text) {
  try {
    parse_json(text, "r.json");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::config);
    return e.what();
  }
  return "accepted";
}

struct Case {
  std::string text, message;  // the message must start with the position and contain the rest
};

}  // namespace

TEST_CASE("every key and value knows its line and column", "[base][json]") {
  const JsonNode root = parse_json("{\n  \"a\": 1,\n  \"\xC3\xA9\xE2\x82\xAC\": [true,\n null, \"x\"]\n}", "r.json");
  const auto& members = std::get<JsonNode::Object>(root.value);
  REQUIRE(members.size() == 2);
  CHECK(root.position.line == 1);
  CHECK(members[0].position.line == 2);
  CHECK(members[0].position.column == 3);
  CHECK(members[0].value.position.column == 8);
  CHECK(members[1].position.line == 3);
  CHECK(members[1].value.position.column == 9);  // columns count characters, not bytes
  const auto& items = std::get<JsonNode::Array>(members[1].value.value);
  REQUIRE(items.size() == 3);
  CHECK(items[0].position.column == 10);
  CHECK(items[1].position.line == 4);
  CHECK(items[1].position.column == 2);
  CHECK(items[2].position.column == 8);
}

TEST_CASE("integers stay integers as far as 64 bits reach", "[base][json]") {
  CHECK(*parse_json("-9223372036854775808", "").as<int64_t>() == INT64_MIN);
  CHECK(*parse_json("9223372036854775807", "").as<int64_t>() == INT64_MAX);
  CHECK(*parse_json("18446744073709551615", "").as<uint64_t>() == UINT64_MAX);
  CHECK(*parse_json("18446744073709551616", "").as<double>() == 18446744073709551616.0);
  CHECK(*parse_json("1e3", "").as<double>() == 1000.0);
  CHECK(*parse_json("4.9406564584124654e-324", "").as<double>() > 0);
}

TEST_CASE("what is not JSON is refused with its position and the way out", "[base][json]") {
  const std::vector<Case> cases = {
      {"{\"a\": 1,}", "r.json:1:8: trailing comma"},
      {"[1,\n]", "r.json:1:3: trailing comma"},
      {"{\"a\": 1, // why\n\"b\": 2}", "r.json:1:10: comments are not JSON"},
      {"{\"a\": 1, # why\n\"b\": 2}", "r.json:1:10: comments are not JSON"},
      {"/* x\n*/ {}", "r.json:1:1: comments are not JSON"},
      {"{\"a\": 1 /* x }", "no end"},
      {"\xEF\xBB\xBF{}", "r.json:1:1: the file starts with a byte order mark"},
      {"\xFF\xFE{\0", "UTF-16"},
      {"{\"a\": 1,\n \"a\": 2}", "r.json:2:2: a: duplicate key \"a\"; it is already set at line 1, column 2"},
      {"{\"x\": {\"a\": 1, \"a\": 1}}", "x.a: duplicate key"},
      {"{\"a\": NaN}", "r.json:1:7: a: NaN is not JSON; a finite number is needed"},
      {"[-Infinity]", "r.json:1:2: [0]: -Infinity is not JSON"},
      {"[1e400]", "r.json:1:2: [0]: 1e400 is out of range"},
      {"[-1e400]", "out of range"},
      {"[\"a\xFFz\"]", "r.json:1:4: [0]: invalid UTF-8: byte 0xFF"},
      {"[\"\xC0\x80\"]", "invalid UTF-8"},          // overlong
      {"[\"\xED\xA0\x80\"]", "invalid UTF-8"},      // surrogate
      {"[\"\xF4\x90\x80\x80\"]", "invalid UTF-8"},  // above U+10FFFF
      {"[\"\\ud800\"]", "surrogate"},
      {"[\"\\x\"]", "unknown escape: \\ before \"x\""},
      {"[\"\\u12g4\"]", "four hexadecimal digits"},
      {"[\"a\nb\"]", "r.json:1:2: [0]: this string is never closed"},
      {"[\"a\tb\"]", "control character 0x09"},
      {"", "r.json:1:1: the file is empty"},
      {"  \n ", "r.json:2:2: the file is empty"},
      {"{} x", "r.json:1:4: \"x\" after the end"},
      {"{}{}", "after the end"},
      {"{\"a\" 1}", "r.json:1:6: a: \":\" is needed after the key \"a\", found \"1\""},
      {"{a: 1}", "r.json:1:2: a key in double quotes is needed here, found \"a\""},
      {"{'a': 1}", "double quotes, not single"},
      {"{\"a\": 'b'}", "double quotes, not single"},
      {"{\"a\": True}", "write true in lower case"},
      {"{\"a\": None}", "write null in lower case"},
      {"{\"a\": adamw}", "\"adamw\" is no JSON value; strings need double quotes"},
      {"{\"a\": 1 \"b\": 2}", "r.json:1:9: \",\" or \"}\" is needed here, found \"\\\"\""},
      {"[1,,2]", "r.json:1:4: two commas in a row"},
      {"{\"a\": ", "the file ends where a value is needed"},
      {"{\"a\": 1", "r.json:1:1: this \"{\" is never closed"},
      {"[1", "this \"[\" is never closed"},
      {"[01]", "leading zero"},
      {"[+1]", "no leading \"+\""},
      {"[.5]", "starts with a digit"},
      {"[1.]", "ends in a point; write 1.0"},
      {"[1e]", "exponent without digits"},
      {"[-]", "without a digit"},
      {"[0x10]", "hexadecimal"},
      {"[1_000]", "without separators or units"},
      {"[\xFFzzz]", "byte 0xFF where a JSON value is needed"},
      {"[512MiB]", "without separators or units"},
  };
  for (const Case& c : cases) {
    INFO(c.text);
    CHECK_THAT(refusal(c.text), Catch::Contains(c.message));
  }
}

TEST_CASE("64 levels are read and the 65th is refused", "[base][json]") {
  CHECK(refusal(std::string(64, '[') + std::string(64, ']')) == "accepted");
  CHECK_THAT(refusal(std::string(65, '[') + std::string(65, ']')),
             Catch::Contains("r.json:1:65: ") && Catch::Contains("nested deeper than 64 levels"));
  CHECK_THAT(refusal(std::string(1000000, '[')), Catch::Contains("nested deeper"));
}

TEST_CASE("a text of nothing but faults is given up after a number of them", "[base][json]") {
  for (const std::string& fault : {std::string("\xFF"), std::string("\\uD800"), std::string(1, '\0')}) {
    std::string text = "\"";
    for (int i = 0; i < 100000; ++i) text += fault;
    const ParsedJson parsed = parse_json_lenient(text + "\"");
    CHECK_FALSE(parsed.complete);
    CHECK(parsed.faults.size() == kMaxJsonFaults + 1);
    CHECK(parsed.faults.back().message.find("too many faults") != std::string::npos);
  }
}

TEST_CASE("faults with a clear meaning do not hide the ones after them", "[base][json]") {
  const ParsedJson parsed = parse_json_lenient("{\"a\": NaN, // one\n\"a\": 1,\n\"b\": 1e999, \"c\": [1,],\n}");
  CHECK(parsed.complete);
  CHECK(parsed.faults.size() == 6);
  const JsonNode* a = parsed.root.find("a");
  REQUIRE(a != nullptr);
  CHECK(a->broken);  // the first of two equal keys is kept
}
