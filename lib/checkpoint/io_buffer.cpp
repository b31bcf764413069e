// lib/checkpoint/io_buffer.cpp -- an anonymous mapping, cut to a huge page's boundary.
#include "checkpoint/io_buffer.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include "base/error.h"
#include "base/units.h"

namespace trainctl {
namespace {
constexpr int64_t kHugePage = 2 << 20;
}

IoBuffer::IoBuffer(int64_t bytes) : held_(bytes + kHugePage) {
  memory_ = mmap(nullptr, static_cast<size_t>(held_), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory_ == MAP_FAILED)
    fail(ErrorKind::memory, fmt::format("the system refused {} for file transfers", human_bytes(bytes)));
  madvise(memory_, static_cast<size_t>(held_), MADV_HUGEPAGE);  // the kernel then pins fewer pages
  const auto address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(memory_));
  data_ = static_cast<char*>(memory_) + (round_up(address, kHugePage) - address);
}

IoBuffer::~IoBuffer() { munmap(memory_, static_cast<size_t>(held_)); }

}  // namespace trainctl
