// tests/unit/base/error_test.cpp -- the one exception type.
#include "base/error.h"

#include "support/catch.h"

using namespace trainctl;

TEST_CASE("every kind has a name that leads back to it and an exit code of the design", "[base][error]") {
  for (int k = 0; k <= static_cast<int>(ErrorKind::internal); ++k) {
    const auto kind = static_cast<ErrorKind>(k);
    CHECK(error_kind_from_name(name(kind)) == kind);
    CHECK(exit_code(kind) >= 2);
    CHECK(exit_code(kind) <= 5);
  }
  CHECK(error_kind_from_name("no such kind") == ErrorKind::internal);
  CHECK(exit_code(ErrorKind::config) == 2);
  CHECK(exit_code(ErrorKind::environment) == 3);
  CHECK(exit_code(ErrorKind::hang) == 4);
  CHECK(exit_code(ErrorKind::checkpoint) == 5);
}

TEST_CASE("the innermost rank and place stay when outer layers add theirs", "[base][error]") {
  try {
    try {
      fail(ErrorKind::comm, "sizes differ");
    } catch (Error& e) {
      e.at_rank(3).at("step 4");
      throw;
    }
  } catch (Error& e) {
    e.at_rank(0).at("the run");
    CHECK(e.rank() == 3);
    CHECK(e.where() == "step 4");
    CHECK(std::string(e.what()) == "sizes differ");
    CHECK_THAT(e.site(), Catch::StartsWith("tests/unit/base/error_test.cpp:"));
  }
}

TEST_CASE("a broken promise of our own is an internal error", "[base][error]") {
  CHECK_NOTHROW(ensure(true, "fine"));
  CHECK_THROWS_WITH(ensure(false, "not fine"), "not fine");
}
