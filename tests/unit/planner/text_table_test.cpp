// tests/unit/planner/text_table_test.cpp -- columns, paragraphs and rank ranges.
#include "planner/text_table.h"

#include <numeric>
#include <sstream>

#include "support/catch.h"

namespace trainctl::testing {

TEST_CASE("ranks are ranges, and a long list is cut at a range", "[planner]") {
  CHECK(ranges_text({0, 1, 2, 3, 4, 5, 6, 7, 16}, 40) == "0-7,16");
  CHECK(ranges_text({5}, 40) == "5");
  CHECK(ranges_text({1, 2}, 40) == "1,2");
  CHECK(ranges_text({}, 40).empty());
  std::vector<int> even(100);
  for (size_t i = 0; i < even.size(); ++i) even[i] = static_cast<int>(2 * i);
  const std::string cut = ranges_text(even, 16);
  CHECK(cut.size() <= 16);
  CHECK(cut.starts_with("0,2,4"));
  CHECK(cut.ends_with(",..."));
}

TEST_CASE("columns line up", "[planner]") {
  TextTable table({"name", "n"});
  table.row({"a", "100"});
  table.row({"longer", "7"});
  CHECK(table.text() == "  name      n\n  a       100\n  longer    7\n");
}

TEST_CASE("a paragraph loses no word and no line is too long", "[planner]") {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "word" + std::to_string(i) + " ";
  text += std::string(250, 'x');
  const std::string out = wrapped("lead: ", text);
  CHECK(out.starts_with("lead: word0 "));
  std::istringstream lines(out);
  size_t letters = 0;
  for (std::string line; std::getline(lines, line);) {
    CHECK(line.size() <= kTextColumns);
    for (const char c : line) letters += c != ' ';
  }
  size_t expected = 5;  // "lead:"
  for (const char c : text) expected += c != ' ';
  CHECK(letters == expected);
}

}  // namespace trainctl::testing
