// tests/unit/base/config_writer_test.cpp -- writing and reading back is the identity; schemas say what readers demand.
#include <random>

#include "base/config_io.h"
#include "support/catch.h"

using namespace trainctl;

namespace {

struct Leaf {
  std::optional<double> real;
  std::string word = "a";
  bool operator==(const Leaf&) const = default;
  void describe(ConfigVisitor& v) {
    v.field("real", real, "may be absent");
    v.field("word", word, "a word", one_of({"a", "b"}));
  }
};

struct Tree {
  bool flag = false;
  int64_t count = 0;
  double rate = 0;
  std::string text;
  IntOrWord degree;
  std::optional<int64_t> maybe;
  std::optional<std::string> name;
  std::vector<int64_t> ints;
  std::vector<double> reals = {1, 2};
  std::vector<std::string> words;
  Leaf leaf;
  std::vector<Leaf> leaves;
  bool operator==(const Tree&) const = default;
  void describe(ConfigVisitor& v) {
    v.field("flag", flag, "a flag");
    v.field("count", count, "a count", Rule{}.required());
    v.field("rate", rate, "a rate", from_to_below(0, 1.5));
    v.field("text", text, "a text");
    v.field("degree", degree, "a degree", at_least(1).with_word("fill"));
    v.field("maybe", maybe, "may be absent", above(0));
    v.field("name", name, "may be absent", one_of({"x", "y"}));
    v.field("ints", ints, "integers", at_least(0));
    v.field("reals", reals, "two", Rule{}.with_length(2));
    v.field("words", words, "strings");
    v.field("leaf", leaf, "a leaf", Rule{}.required());
    v.field("leaves", leaves, "leaves");
  }
};

}  // namespace

TEST_CASE("reading what was written gives the same config, whatever it holds", "[base][config]") {
  std::mt19937_64 random(3);
  const auto pick = [&random](uint64_t n) { return random() % n; };
  const std::vector<std::string> texts = {"", "plain", "\"quotes\" and \\", "line\nbreak\t\x01",
                                          "\xC3\xA9\xE2\x82\xAC"};
  const auto leaf = [&] {
    Leaf l;
    if (pick(2)) l.real = std::ldexp(static_cast<double>(random()), static_cast<int>(pick(300)) - 150);
    l.word = pick(2) ? "a" : "b";
    return l;
  };
  for (int round = 0; round < 200; ++round) {
    Tree t;
    t.flag = pick(2) == 0;
    t.count = static_cast<int64_t>(random());
    t.rate = static_cast<double>(pick(1000)) / 700.0;
    t.text = texts[pick(texts.size())];
    if (pick(2)) t.degree.value = static_cast<int64_t>(1 + pick(100));
    if (pick(2)) t.maybe = static_cast<int64_t>(1 + pick(100));
    if (pick(2)) t.name = "y";
    for (uint64_t i = pick(4); i > 0; --i) t.ints.push_back(static_cast<int64_t>(pick(1ull << 62)));
    t.reals = {static_cast<double>(random()) * 1e-30, -1.0 / 3.0};
    for (uint64_t i = pick(4); i > 0; --i) t.words.push_back(texts[pick(texts.size())]);
    t.leaf = leaf();
    for (uint64_t i = pick(4); i > 0; --i) t.leaves.push_back(leaf());

    Tree back;
    ConfigSource source;
    std::vector<Fault> faults;
    read_config(parse_json(write_config(t).dump(2), "written"), back, source, faults);
    CHECK(format_faults("written", faults) == "");
    CHECK(back == t);
  }
}

TEST_CASE("a written config has every field, in the order of its description", "[base][config]") {
  CHECK(write_config(Tree{}).dump() ==
        R"({"flag":false,"count":0,"rate":0.0,"text":"","degree":"fill","maybe":null,"name":null,"ints":[],)"
        R"("reals":[1.0,2.0],"words":[],"leaf":{"real":null,"word":"a"},"leaves":[]})");
}

TEST_CASE("a schema has types, bounds, choices, required keys, defaults and descriptions", "[base][config]") {
  const nlohmann::ordered_json s = schema_of<Tree>("a tree");
  CHECK(s["$schema"] == "https://json-schema.org/draft/2020-12/schema");
  CHECK(s["title"] == "a tree");
  CHECK(s["type"] == "object");
  CHECK(s["additionalProperties"] == false);
  CHECK(s["required"] == nlohmann::ordered_json({"count", "leaf"}));
  const auto& p = s["properties"];
  CHECK(p.size() == 12);
  CHECK(p["flag"].dump() == R"({"type":"boolean","description":"a flag","default":false})");
  CHECK_FALSE(p["count"].contains("default"));
  CHECK(p["rate"]["minimum"] == 0);
  CHECK(p["rate"]["exclusiveMaximum"] == 1.5);
  CHECK(p["degree"].dump() ==
        R"({"anyOf":[{"type":"integer","minimum":1},{"const":"fill"}],"description":"a degree","default":"fill"})");
  CHECK(p["maybe"].dump() ==
        R"({"type":["integer","null"],"exclusiveMinimum":0,"description":"may be absent","default":null})");
  CHECK(p["name"]["enum"].dump() == R"(["x","y",null])");
  CHECK(p["ints"]["items"].dump() == R"({"type":"integer","minimum":0})");
  CHECK(p["reals"]["minItems"] == 2);
  CHECK(p["reals"]["maxItems"] == 2);
  CHECK(p["leaf"]["additionalProperties"] == false);
  CHECK(p["leaf"]["properties"]["word"]["enum"].dump() == R"(["a","b"])");
  CHECK(p["leaves"]["items"]["properties"]["real"]["type"].dump() == R"(["number","null"])");
}
