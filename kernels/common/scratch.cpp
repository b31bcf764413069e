// kernels/common/scratch.cpp -- one buffer per thread and slot.
#include "kernels/common/scratch.h"

#include <array>
#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "base/units.h"

namespace trainctl::kernels {
namespace {

struct Release {
  void operator()(void* p) const { std::free(p); }
};
struct Buffer {
  std::unique_ptr<void, Release> data;
  int64_t bytes = 0;
};

}  // namespace

void* scratch(ScratchSlot slot, int64_t bytes) {
  thread_local std::array<Buffer, kScratchSlots> buffers;
  Buffer& b = buffers[static_cast<size_t>(slot)];
  if (bytes > b.bytes || !b.data) {
    const int64_t size = round_up(bytes > 0 ? bytes : 1, 4096);
    b.data.reset();
    b.bytes = 0;
    b.data.reset(std::aligned_alloc(64, static_cast<size_t>(size)));
    if (!b.data) fail(ErrorKind::memory, "the system refused " + human_bytes(size) + " of kernel working memory");
    b.bytes = size;
  }
  return b.data.get();
}

}  // namespace trainctl::kernels
