// tests/unit/data/counting_new.cpp -- replaces operator new for this program and counts; alone in its unit, so that the
// compiler does not inline half of a pair.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "data_test_support.h"

namespace {
std::atomic<int64_t> allocations{0};
}

int64_t trainctl::testing::allocations_so_far() { return allocations; }

void* operator new(size_t bytes) {  // the default array forms come here too
  ++allocations;
  if (void* p = std::malloc(bytes == 0 ? 1 : bytes)) return p;
  throw std::bad_alloc();
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
