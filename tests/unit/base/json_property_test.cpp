// tests/unit/base/json_property_test.cpp -- the parser against an independent one, on random and on damaged texts.
#include <nlohmann/json.hpp>
#include <random>

#include "base/json_node.h"
#include "support/catch.h"

using namespace trainctl;

namespace {

nlohmann::json random_value(std::mt19937& random, int depth) {
  const auto pick = [&random](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  switch (pick(depth > 3 ? 6 : 8)) {
    case 0:
      return nullptr;
    case 1:
      return pick(2) == 0;
    case 2:
      return static_cast<int64_t>(random()) * (pick(2) ? 1 : -1);
    case 3:
      return std::ldexp(static_cast<double>(random()), pick(200) - 100);
    case 4:
      return "text \"with\" \\ \n and \xC3\xA9 " + std::to_string(random());
    case 5:
      return pick(100);
    case 6: {
      nlohmann::json items = nlohmann::json::array();
      for (int i = pick(4); i > 0; --i) items.push_back(random_value(random, depth + 1));
      return items;
    }
    default: {
      nlohmann::json members = nlohmann::json::object();
      for (int i = pick(4); i > 0; --i) members["k" + std::to_string(pick(50))] = random_value(random, depth + 1);
      return members;
    }
  }
}

}  // namespace

TEST_CASE("a legal text means what another parser says it means", "[base][json]") {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const nlohmann::json expected = random_value(random, 0);
    const JsonNode got = parse_json(expected.dump(round % 2 ? 2 : -1), "random");
    CHECK(nlohmann::json::parse(got.text()) == expected);
  }
}

TEST_CASE("a damaged text is accepted exactly when another strict parser accepts it", "[base][json]") {
  std::mt19937 random(11);
  const std::string bytes = "{}[]\",:.-+eE0123456789 \n\ttruefalsn\\u/\xC3\xA9\xFF#";
  int accepted = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string text = random_value(random, 0).dump();
    for (int edits = 1 + static_cast<int>(random() % 2); edits > 0; --edits) {
      const size_t at = random() % text.size();
      const char c = bytes[random() % bytes.size()];
      if (random() % 3 == 0)
        text.erase(at, 1);
      else if (random() % 2 == 0)
        text[at] = c;
      else
        text.insert(at, 1, c);
      if (text.empty()) text = " ";
    }
    const ParsedJson parsed = parse_json_lenient(text);
    bool mine = parsed.complete;
    for (const Fault& f : parsed.faults) {
      // The other parser keeps the last of two equal keys, and rounds what is too small to zero.
      const std::string token = f.message.substr(0, f.message.find(' '));
      const bool underflow = token.find("e-") != std::string::npos || token.find("E-") != std::string::npos;
      const bool stricter = f.message.starts_with("duplicate key") || underflow;
      mine = mine && stricter;
    }
    INFO(text);
    CHECK(mine == nlohmann::json::accept(text));
    accepted += mine ? 1 : 0;
    for (const Fault& f : parsed.faults) {
      CHECK(f.position.line >= 1);
      CHECK(f.position.column >= 1);
    }
  }
  CHECK(accepted > 100);  // both sides are exercised
  CHECK(accepted < 3900);
}

TEST_CASE("every proper prefix of an object is refused, none crashes", "[base][json]") {
  const std::string whole = R"({"a": [1.5e3, true, null, "x\u00e9\"y"], "b": {"c": -12}})";
  REQUIRE(parse_json_lenient(whole).complete);
  for (size_t length = 0; length < whole.size(); ++length) {
    const ParsedJson parsed = parse_json_lenient(whole.substr(0, length));
    CHECK_FALSE(parsed.complete);
    CHECK_FALSE(parsed.faults.empty());
  }
}
