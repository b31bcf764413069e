#include "support/runner.h"

int main(int argc, char** argv) { return trainctl::testing::run_tests(argc, argv); }
