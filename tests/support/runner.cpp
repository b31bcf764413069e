#define CATCH_CONFIG_RUNNER
#include "support/runner.h"

#include "support/catch.h"

int trainctl::testing::run_tests(int argc, char** argv) { return Catch::Session().run(argc, argv); }
