// tests/unit/base/json_override_test.cpp -- --set expressions.
#include "base/error.h"
#include "base/json_node.h"
#include "support/catch.h"

using namespace trainctl;

namespace {

std::string after(std::string_view text, std::string_view expression) {
  JsonNode root = parse_json(text, "r.json");
  apply_override(root, expression);
  return root.text();
}

std::string refusal(std::string_view expression) {
  JsonNode root = parse_json(R"({"a": {"b": 1}, "list": [{"w": 1}]})", "r.json");
  try {
    apply_override(root, expression);
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::usage);
    CHECK_THAT(e.what(), Catch::Contains(std::string(expression)));
    return e.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("an override sets a value that is JSON as JSON and any other as a string", "[base][override]") {
  CHECK(after(R"({"a": {"b": 1}})", "a.b=2") == R"({"a": {"b": 2}})");
  CHECK(after(R"({"a": {"b": 1}})", "a.b=adamw") == R"({"a": {"b": "adamw"}})");
  CHECK(after(R"({"a": {"b": 1}})", "a.b=\"2\"") == R"({"a": {"b": "2"}})");
  CHECK(after(R"({"a": {"b": 1}})", "a.b=") == R"({"a": {"b": ""}})");
  CHECK(after(R"({"a": {"b": 1}})", "a.b=x=y") == R"({"a": {"b": "x=y"}})");
  CHECK(after(R"({"a": {"b": 1}})", "a.b=[1, 2]") == R"({"a": {"b": [1, 2]}})");
  CHECK(after(R"({"a": {"b": 1}})", "a.b=[1, 2") == R"({"a": {"b": "[1, 2"}})");
}

TEST_CASE("an override creates the sections on its way and reaches into arrays", "[base][override]") {
  CHECK(after("{}", "a.b.c=true") == R"({"a": {"b": {"c": true}}})");
  CHECK(after(R"({"l": [{"w": 1}, {"w": 2}]})", "l[1].w=5") == R"({"l": [{"w": 1}, {"w": 5}]})");
  CHECK(after(R"({"l": [1]})", "l[1]=2") == R"({"l": [1, 2]})");  // the next free element
  CHECK(after("{}", "l[0].path=x") == R"({"l": [{"path": "x"}]})");
}

TEST_CASE("an overridden value remembers the expression, all the way down", "[base][override]") {
  JsonNode root = parse_json("{\"a\": 1}", "r.json");
  apply_override(root, "a=[1, {\"b\": 2}]");
  const auto& items = std::get<JsonNode::Array>(root.find("a")->value);
  CHECK(items[1].find("b")->origin == "--set a=[1, {\"b\": 2}]");
  CHECK(items[1].find("b")->position.line == 0);
}

TEST_CASE("a malformed override is a usage error that quotes it", "[base][override]") {
  CHECK_THAT(refusal("a.b"), Catch::Contains("there is no \"=\""));
  CHECK_THAT(refusal("=1"), Catch::Contains("a key is empty"));
  CHECK_THAT(refusal("a..b=1"), Catch::Contains("a key is empty"));
  CHECK_THAT(refusal("a.=1"), Catch::Contains("a key is empty"));
  CHECK_THAT(refusal(".a=1"), Catch::Contains("a key is empty"));
  CHECK_THAT(refusal("list[x]=1"), Catch::Contains("no index"));
  CHECK_THAT(refusal("list[-1]=1"), Catch::Contains("no index"));
  CHECK_THAT(refusal("list[0=1"), Catch::Contains("brackets"));
  CHECK_THAT(refusal("list[0]x=1"), Catch::Contains("brackets"));
  CHECK_THAT(refusal("list[99999999999999999999]=1"), Catch::Contains("no index"));
  CHECK_THAT(refusal("list[3]=1"), Catch::Contains("has 1 element; the next free index is [1]"));
  CHECK_THAT(refusal("a[0]=1"), Catch::Contains("a is no array"));
  CHECK_THAT(refusal("a.b.c=1"), Catch::Contains("a.b is no section"));
}
