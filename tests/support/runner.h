// tests/support/runner.h -- Catch2's session, compiled once for every main that needs nothing else of it.
#pragma once

namespace trainctl::testing {

int run_tests(int argc, char** argv);

}  // namespace trainctl::testing
