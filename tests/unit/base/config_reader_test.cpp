// tests/unit/base/config_reader_test.cpp -- every fault of keys, types and rules, with where and what instead.
#include "base/config_io.h"
#include "base/error.h"
#include "support/catch.h"

using namespace trainctl;

namespace {

struct Part {
  std::string path;
  double weight = 1.0;
  void describe(ConfigVisitor& v) {
    v.field("path", path, "where", Rule{}.required());
    v.field("weight", weight, "share", above(0));
  }
};

struct Inner {
  int64_t steps = 5;
  std::string kind = "cosine";
  void describe(ConfigVisitor& v) {
    v.field("steps", steps, "how long", at_least(1));
    v.field("kind", kind, "shape", one_of({"constant", "cosine"}).not_built({"wsd"}));
  }
};

struct Outer {
  bool on = false;
  int64_t count = 3;
  double lr = 0.1;
  std::string title = "none";
  IntOrWord degree;
  std::optional<int64_t> maybe_int;
  std::optional<double> maybe_real;
  std::optional<std::string> maybe_text;
  std::vector<int64_t> ints;
  std::vector<double> pair = {0.5, 0.25};
  std::vector<std::string> words;
  Inner inner;
  std::vector<Part> parts;
  void describe(ConfigVisitor& v) {
    v.field("on", on, "a switch");
    v.field("count", count, "a count", between(1, 9).also_called({"number_of_things"}));
    v.field("lr", lr, "a rate", above(0));
    v.field("title", title, "a title");
    v.field("degree", degree, "a degree", at_least(1).with_word("fill"));
    v.field("maybe_int", maybe_int, "may be absent", at_least(0));
    v.field("maybe_real", maybe_real, "may be absent");
    v.field("maybe_text", maybe_text, "may be absent", one_of({"x", "y"}));
    v.field("ints", ints, "integers", at_least(0));
    v.field("pair", pair, "two fractions", from_to_below(0, 1).with_length(2));
    v.field("words", words, "strings");
    v.field("inner", inner, "nested");
    v.field("parts", parts, "list of objects");
  }
};

struct Read {
  Outer value;
  ConfigSource source;
  std::vector<Fault> faults;
  std::string text() const { return format_faults("r.json", faults); }
};

Read read(std::string_view text, const std::vector<std::string>& overrides = {}) {
  Read r;
  ParsedJson parsed = parse_json_lenient(text);
  REQUIRE(parsed.complete);
  r.faults = parsed.faults;
  for (const std::string& o : overrides) apply_override(parsed.root, o);
  read_config(parsed.root, r.value, r.source, r.faults);
  return r;
}

}  // namespace

TEST_CASE("absent keys keep their defaults and given ones replace them", "[base][config]") {
  const Read none = read("{}");
  CHECK(none.faults.empty());
  CHECK(none.value.count == 3);
  CHECK(none.value.pair == std::vector<double>{0.5, 0.25});
  CHECK_FALSE(none.source.given("count"));
  const Read all = read(R"({"on": true, "count": 9, "lr": 1, "title": "t", "degree": 4, "maybe_int": 0,
    "maybe_real": 2.5, "maybe_text": "y", "ints": [1, 2], "pair": [0, 0.9], "words": ["a"],
    "inner": {"steps": 1e3, "kind": "constant"}, "parts": [{"path": "p"}, {"path": "q", "weight": 2}]})");
  CHECK(all.text() == "");
  CHECK(all.value.on);
  CHECK(all.value.lr == 1.0);
  CHECK(all.value.degree.value == 4);
  CHECK(all.value.maybe_int == 0);
  CHECK(all.value.inner.steps == 1000);  // 1e3 is an integer, as in JSON Schema
  REQUIRE(all.value.parts.size() == 2);
  CHECK(all.value.parts[1].weight == 2.0);
  CHECK(all.source.position.at("parts[1].weight").line == 3);
  CHECK(read(R"({"degree": "fill", "maybe_int": null})").faults.empty());
}

TEST_CASE("a wrong value is reported at its place with the rule and the way out, and the default stays",
          "[base][config]") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"count": "8"})",
       R"(r.json:1:11: count: must be an integer in [1, 9], found the string "8"; write 8 without)"},
      {R"({"count": 2.5})", "the nearest integer is 2"},
      {R"({"count": true})", "must be an integer in [1, 9], found the boolean true"},
      {R"({"count": null})", "found null; leave the key out to use its default"},
      {R"({"count": 0})", "count: 0 must be in [1, 9]; the nearest legal value is 1"},
      {R"({"count": 10})", "the nearest legal value is 9"},
      {R"({"count": 18446744073709551615})", "the nearest legal value is 9"},
      {R"({"count": [1]})", "found an array [1]"},
      {R"({"lr": 0})", "lr: 0 must be > 0"},
      {R"({"lr": "1e-3"})", "lr: must be a number > 0, found the string \"1e-3\"; write 1e-3 without quotes"},
      {R"({"on": "true"})", "on: must be true or false, found the string \"true\"; write true without quotes"},
      {R"({"on": 1})", "write true"},
      {R"({"on": "yes"})", "write true"},
      {R"({"title": 5})", "title: must be a string, found the integer 5; write 5 in double quotes"},
      {R"({"degree": "fil"})", "must be an integer >= 1 or \"fill\", found the string \"fil\"; did you mean \"fill\"?"},
      {R"({"degree": 0})", "degree: 0 must be >= 1"},
      {R"({"degree": "4"})", "write 4 without quotes"},
      {R"({"maybe_text": "z"})", "\"z\" is not one of \"x\", \"y\""},
      {R"({"ints": [1, -1]})", "r.json:1:14: ints[1]: -1 must be >= 0"},
      {R"({"ints": 3})", "must be an array of integers, found the integer 3"},
      {R"({"pair": [0.5]})", "must hold exactly 2 numbers, found 1"},
      {R"({"pair": [0.5, 1]})", "pair[1]: 1 must be in [0, 1)"},
      {R"({"words": ["a", 1]})", "words[1]: must be a string"},
      {R"({"inner": 3})", "inner: must be an object { ... }, found the integer 3"},
      {R"({"inner": {"kind": "cosin"}})", "did you mean \"cosine\"?"},
      {R"({"inner": {"kind": "wsd"}})", "\"wsd\" is not in this build; it has \"constant\", \"cosine\""},
      {R"({"parts": {}})", "parts: must be an array [ ... ] of objects"},
      {R"({"parts": ["x"]})", "parts[0]: must be an object { ... }, found the string"},
      {R"({"parts": [{"weight": 1}]})", "r.json:1:12: parts[0].path: required key \"path\" is missing in \"parts[0]\""},
      {"[]", "the file must hold a JSON object"},
  };
  for (const auto& [text, message] : cases) {
    INFO(text);
    const Read r = read(text);
    CHECK(r.faults.size() == 1);
    CHECK_THAT(r.text(), Catch::Contains(message));
    CHECK(r.value.count == 3);
  }
}

TEST_CASE("an unknown key is told apart: misspelt, misplaced, another stack's word, or nothing near",
          "[base][config]") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"counts": 1})", R"(r.json:1:2: counts: unknown key "counts" at the top level; did you mean "count"?)"},
      {R"({"maybe-int": 1})", R"(it is spelt "maybe_int" here)"},
      {R"({"number_of_things": 1})", R"(it is spelt "count" here)"},
      {R"({"number_of_thing": 1})", R"(did you mean "count"?)"},
      {R"({"steps": 1})", R"(it belongs elsewhere: "steps" in "inner")"},
      {R"({"inner": {"lr": 1}})", R"(it belongs elsewhere: "lr" at the top level)"},
      {R"({"parts": [{"path": "p", "wieght": 1}]})", R"(unknown key "wieght" in "parts[0]"; did you mean "weight"?)"},
      {R"({"inner": {"titel": 1}})", R"(did you mean "title" at the top level?)"},
      {R"({"inner": {"banana": 1}})", "the keys here are steps, kind"},
  };
  for (const auto& [text, message] : cases) {
    INFO(text);
    const Read r = read(text);
    CHECK(r.faults.size() == 1);
    CHECK_THAT(r.text(), Catch::Contains(message));
  }
}

TEST_CASE("a misspelt required key is one fault, not also a missing one", "[base][config]") {
  const Read r = read(R"({"parts": [{"pathh": "p"}]})");
  CHECK(r.faults.size() == 1);
  CHECK_FALSE(r.source.usable("parts[0].path"));
}

TEST_CASE("an overridden value is blamed on its expression, not on a line", "[base][config]") {
  const Read r = read(R"({"count": 3})", {"count=99", "typo=1"});
  CHECK(r.faults.size() == 2);
  CHECK_THAT(r.text(), Catch::Contains("r.json: count: 99 must be") && Catch::Contains("(set by --set count=99)") &&
                           Catch::Contains("(set by --set typo=1)"));
  CHECK(r.source.override_of.at("count") == "--set count=99");
}

TEST_CASE("a value that broken text stands for is not reported a second time", "[base][config]") {
  const Read r = read(R"({"count": NaN, "ints": [1, 1e999]})");
  CHECK(r.faults.size() == 2);
  CHECK_FALSE(r.source.usable("count"));
}

TEST_CASE("a fault on an absent key points at the section that encloses it", "[base][config]") {
  const Read r = read("{\n\"inner\": {\"kind\": \"cosine\"}}");
  CHECK(r.source.fault("inner.steps", "x").position.line == 2);
  CHECK(r.source.fault("inner.steps", "x").position.column == 10);
  CHECK(r.source.fault("parts[3].path", "x").position.line == 1);
}

TEST_CASE("whole numbers beyond 64 bits are told with the key's own bound, or as no 64-bit integer", "[base][config]") {
  const auto says = [](const std::string& text) { return read(text).text(); };
  CHECK_THAT(says(R"({"count": 99999999999999999999})"), Catch::Contains("the nearest legal value is 9"));
  CHECK_THAT(says(R"({"count": -99999999999999999999})"), Catch::Contains("the nearest legal value is 1"));
  CHECK_THAT(says(R"({"count": 18446744073709551615})"), Catch::Contains("the nearest legal value is 9"));
  CHECK_THAT(says(R"({"ints": [1e30]})"), Catch::Contains("it is no 64-bit integer"));
}

TEST_CASE("JSON of an override that cannot be taken is told as such, not as a string", "[base][config]") {
  const auto says = [](const std::string& expression) { return read("{}", {expression}).text(); };
  CHECK_THAT(says("lr=1e400"), Catch::Contains("1e400 is out of range") && !Catch::Contains("string"));
  CHECK_THAT(says("count=1e400"), Catch::Contains("1e400 is out of range") && !Catch::Contains("string"));
  CHECK_THAT(says("degree=1e400"), Catch::Contains("1e400 is out of range"));
  CHECK_THAT(says("lr=NaN"), Catch::Contains("a finite number is needed"));
  CHECK_THAT(says("ints=[1, 2"), Catch::Contains("is no JSON; character") && Catch::Contains("never closed"));
  CHECK_THAT(says("parts=[{\"path\": \"x\", \"weight\": 1e400}]"), Catch::Contains("out of range"));
  CHECK_THAT(says("lr=fast"), Catch::Contains("found the string \"fast\""));
  CHECK(says("title=nan").empty());  // a key that takes strings may mean the word
}
