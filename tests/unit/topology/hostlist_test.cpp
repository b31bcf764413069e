// tests/unit/topology/hostlist_test.cpp -- Slurm-style host lists, there and back, and hostile ones.
#include "topology/hostlist.h"

#include <random>

#include "base/error.h"
#include "support/catch.h"

using namespace trainctl;
using Names = std::vector<std::string>;

TEST_CASE("ranges expand in order and keep their padding", "[topology][hostlist]") {
  CHECK(expand_hostlist("n[001-004,010],m7") == Names{"n001", "n002", "n003", "n004", "n010", "m7"});
  CHECK(expand_hostlist("host") == Names{"host"});
  CHECK(expand_hostlist("n[8-11]") == Names{"n8", "n9", "n10", "n11"});
  CHECK(expand_hostlist("n[08-11]") == Names{"n08", "n09", "n10", "n11"});
  CHECK(expand_hostlist("r[1-2]n[1-2].lab") == Names{"r1n1.lab", "r1n2.lab", "r2n1.lab", "r2n2.lab"});
  CHECK(expand_hostlist("[3-4]") == Names{"3", "4"});
  CHECK(expand_hostlist("n[5-5]") == Names{"n5"});
}

TEST_CASE("compressing finds ranges of neighbours", "[topology][hostlist]") {
  CHECK(compress_hostlist({"n001", "n002", "n003", "n010", "m7"}) == "n[001-003,010],m7");
  CHECK(compress_hostlist({"n9", "n10", "n11"}) == "n[9-11]");
  CHECK(compress_hostlist({"a", "b"}) == "a,b");
  CHECK(compress_hostlist({"n1"}) == "n1");
  CHECK(compress_hostlist({"n2", "n1"}) == "n[2,1]");
  CHECK(compress_hostlist({}) == "");
}

TEST_CASE("expanding a compressed list gives the names back, in order", "[topology][hostlist][property]") {
  std::mt19937 random(21);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<>(low, high)(random); };
  const Names stems = {"n", "m-", "rack.", "x_1y", "", "007b"};
  for (int round = 0; round < 500; ++round) {
    Names names;
    for (int runs = pick(1, 6); runs > 0; --runs) {
      const std::string stem = stems[size_t(pick(0, 5))];
      const int width = pick(1, 4), first = pick(0, 1200), count = pick(1, 12);
      for (int n = first; n < first + count; ++n) {
        std::string digits = std::to_string(n);
        if (int(digits.size()) < width) digits.insert(0, size_t(width) - digits.size(), '0');
        names.push_back(pick(0, 9) == 0 ? stem + "plain" : stem + digits);
      }
    }
    names.push_back("z99999999999999999999999999");  // more digits than a range may count
    names.push_back("z999999999999999999");
    const std::string list = compress_hostlist(names);
    INFO(list);
    CHECK(expand_hostlist(list) == names);
  }
}

TEST_CASE("a bad host list is refused with the part that is wrong", "[topology][hostlist]") {
  const auto refused = [](const std::string& list, const std::string& why) {
    INFO(list);
    try {
      expand_hostlist(list);
      FAIL("accepted");
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::config);
      CHECK_THAT(e.what(), Catch::Contains(why));
    }
  };
  refused("", "it is empty");
  refused(",", "an empty name");
  refused("a,,b", "an empty name");
  refused("a,", "an empty name");
  refused("n[1-4", "not closed");
  refused("n1-4]", "unexpected \"]\" at position 5");
  refused("n[]", "is no number");
  refused("n[1-]", "is no number");
  refused("n[-4]", "is no number");
  refused("n[1-2-3]", "is no number");
  refused("n[1,,2]", "is no number");
  refused("n[a-b]", "\"a\" in brackets is no number");
  refused("n[[1-2]]", "is no number");
  refused("n[4-1]", "the range \"4-1\" descends");
  refused("n 1", "unexpected \" \"");
  refused("n;rm", "unexpected \";\"");
  refused("n\n1", "unexpected \"?\"");
  refused(std::string("n\0", 2), "unexpected");
  refused("n[1-99999999999999999]", "more than 131072 hosts");
  refused("n[1-9999999999999999999999]", "more than 18 digits");
  refused("n[0-999999999999999999,0-999999999999999999,0-999999999999999999]", "more than 131072 hosts");
  refused("a[1-1000]b[1-1000]", "more than 131072 hosts");
  refused("n[1-100000],m[1-100000]", "more than 131072 hosts");
  refused(std::string(10000, 'x'), "longer than 253");
}

TEST_CASE("random bytes never crash the host list parser", "[topology][hostlist][property]") {
  std::mt19937 random(22);
  const std::string alphabet = "n1209[]-,.x \t\"";
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string list;
    for (int length = std::uniform_int_distribution<>(0, 12)(random); length > 0; --length)
      list += alphabet[std::uniform_int_distribution<size_t>(0, alphabet.size() - 1)(random)];
    try {
      const Names names = expand_hostlist(list);
      ++accepted;
      if (expand_hostlist(compress_hostlist(names)) != names) FAIL("no round trip: " << list);
    } catch (const Error&) {
    }
  }
  CHECK(accepted > 100);
}
