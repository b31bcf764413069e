// tests/kernels/table_test.cpp -- the CPU table is complete, and levels are named.
#include "fixture.h"
#include "support/catch.h"

using namespace trainctl;
using namespace trainctl::testing;

TEST_CASE("every contract has a CPU kernel at every level of this machine", "[kernels][table]") {
  for (const std::string& level : levels()) {
    INFO(level);
    const auto table = kernels::cpu_kernels_at(level);
    std::apply([](auto... entry) { CHECK((... && (entry != nullptr))); }, table.entries);
  }
}

TEST_CASE("the default table is the best level of this machine", "[kernels][table]") {
  CHECK(kernels::cpu_vector_level() == levels().back());
  CHECK(kernels::cpu_kernels().entries == kernels::cpu_kernels_at(levels().back()).entries);
}

TEST_CASE("an unknown level is refused by name with the known ones", "[kernels][table]") {
  CHECK_THROWS_WITH(kernels::cpu_kernels_at("avx10"), Catch::Contains("avx10") && Catch::Contains("portable"));
}
