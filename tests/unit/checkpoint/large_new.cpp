// tests/unit/checkpoint/large_new.cpp -- replaces operator new for this program and counts large blocks; alone in its
// unit, so that the compiler does not inline half of a pair.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "fixture.h"

namespace {
std::atomic<int64_t> large{0};
void count(size_t bytes) { large += bytes > (1u << 20) ? 1 : 0; }
}  // namespace

int64_t trainctl::testing::large_allocations() { return large; }

void* operator new(size_t bytes) {  // the default array forms come here too
  count(bytes);
  if (void* p = std::malloc(bytes == 0 ? 1 : bytes)) return p;
  throw std::bad_alloc();
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  count(bytes);
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
