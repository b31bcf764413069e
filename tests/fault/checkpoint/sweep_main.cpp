// tests/fault/checkpoint/sweep_main.cpp -- the main of tests that trace processes: without permission to do so they are
// SKIPPED (ctest's SKIP_RETURN_CODE), never passed.
#include <cstdio>

#include "fault/checkpoint/trace.h"
#include "support/runner.h"

int main(int argc, char** argv) {
  if (const std::string refusal = trainctl::testing::tracing_refusal(); !refusal.empty()) {
    std::printf("SKIPPED: %s\n", refusal.c_str());
    return 77;
  }
  return trainctl::testing::run_tests(argc, argv);
}
