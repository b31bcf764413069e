// tests/unit/base/units_test.cpp -- checked arithmetic, splits, numbers for people.
#include "base/units.h"

#include "support/catch.h"

using namespace trainctl;

TEST_CASE("products and sums beyond 64 bits are refused", "[base][units]") {
  CHECK(checked_mul(int64_t{1} << 31, int64_t{1} << 31) == int64_t{1} << 62);
  CHECK_THROWS_AS(checked_mul(int64_t{1} << 32, int64_t{1} << 31), Error);
  CHECK_THROWS_AS(checked_add(INT64_MAX, 1), Error);
}

TEST_CASE("an even split covers everything once and its parts differ by at most one", "[base][units]") {
  for (int64_t total = 0; total < 20; ++total)
    for (int64_t parts = 1; parts < 8; ++parts) {
      int64_t next = 0;
      for (int64_t i = 0; i < parts; ++i) {
        const Span64 s = even_split(total, parts, i);
        CHECK(s.begin == next);
        CHECK((s.size() == total / parts || s.size() == total / parts + 1));
        if (i > 0) CHECK(s.size() <= even_split(total, parts, i - 1).size());
        next = s.end;
      }
      CHECK(next == total);
    }
}

TEST_CASE("sizes, counts and times read as people write them", "[base][units]") {
  CHECK(human_bytes(0) == "0 B");
  CHECK(human_bytes(1023) == "1023 B");
  CHECK(human_bytes(1024) == "1.00 KiB");
  CHECK(human_bytes(3ll << 29) == "1.50 GiB");
  CHECK(human_bytes(999ll << 20) == "999 MiB");
  CHECK(human_bytes((1ll << 30) - 1) == "1.00 GiB");
  CHECK(human_bytes(INT64_MAX) == "8.00 EiB");
  CHECK(human_count(12) == "12");
  CHECK(human_count(124439808) == "124.4 M");
  CHECK(human_count(1.2e12) == "1.2 T");
  CHECK(human_count(999960) == "1.0 M");
  CHECK(human_seconds(0.85) == "850 ms");
  CHECK(human_seconds(12.34) == "12.3 s");
  CHECK(human_seconds(200) == "3 m 20 s");
  CHECK(human_seconds(59.96) == "1 m 00 s");
  CHECK(human_seconds(7500) == "2 h 05 m");
  CHECK(human_seconds(-1) == "-1.0 s");
}

TEST_CASE("a count and its noun agree", "[base][units]") {
  CHECK(counted(0, "rank") == "0 ranks");
  CHECK(counted(1, "rank") == "1 rank");
  CHECK(counted(2, "rank") == "2 ranks");
  CHECK(counted(1, "entry", "entries") == "1 entry");
  CHECK(counted(3, "entry", "entries") == "3 entries");
}
