// tests/unit/interop/interop_golden.cpp -- a program for scripts/check_hf_export.py: a golden case as a checkpoint.
#include <cstdio>
#include <exception>

#include "interop_support.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: interop_golden CASE FOLDER\n", stderr);
    return 2;
  }
  try {
    trainctl::testing::SaveOptions options;
    options.world = 2;
    trainctl::testing::save_weights(argv[2], trainctl::testing::golden(argv[1]), options);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "interop_golden: %s\n", e.what());
    return 1;
  }
  return 0;
}
