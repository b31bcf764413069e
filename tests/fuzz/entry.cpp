// tests/fuzz/entry.cpp -- libFuzzer's entry point.
#include <cstddef>
#include <cstdint>

#include "fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  trainctl::fuzz::accepts({reinterpret_cast<const char*>(data), size});
  return 0;
}
