// tests/unit/device/arena_test.cpp -- the counting arena: what is live, what was live at the peak, reuse, and the
// limit.
#include "device/arena.h"

#include "base/error.h"
#include "support/catch.h"
#include "tensor/tensor.h"

namespace trainctl {

TEST_CASE("the peak is a moment: categories are those of that moment, and do not add up their own peaks", "[device]") {
  const auto device = make_cpu_device();
  Arena arena(*device);
  {
    const Tensor a(arena, {100}, DType::f32, MemoryCategory::activations);  // 448 bytes after rounding to 64
    const Tensor b(arena, {64}, DType::f32, MemoryCategory::weights);
    CHECK(arena.counters().peak_total == 448 + 256);
  }
  const Tensor c(arena, {170}, DType::f32, MemoryCategory::optimizer);  // 704: a new peak needs more than 704
  CHECK(arena.counters().now_total == 704);
  CHECK(arena.counters().at_peak[static_cast<size_t>(MemoryCategory::activations)] == 448);
  const Tensor d(arena, {1}, DType::f32, MemoryCategory::other);
  CHECK(arena.counters().peak_total == 768);
  CHECK(arena.counters().at_peak[static_cast<size_t>(MemoryCategory::activations)] == 0);
  CHECK(arena.counters().at_peak[static_cast<size_t>(MemoryCategory::optimizer)] == 704);
}

TEST_CASE("a freed block serves the next request of its size", "[device]") {
  const auto device = make_cpu_device();
  Arena arena(*device);
  for (int i = 0; i < 10; ++i) const Tensor t(arena, {1000}, DType::f32, MemoryCategory::activations);
  CHECK(arena.counters().system_allocations == 1);
  CHECK(arena.counters().now_total == 0);
}

TEST_CASE("a limit is refused with what was asked, what is live, and what to do", "[device]") {
  const auto device = make_cpu_device();
  Arena arena(*device, 1 << 20);
  const Tensor weights(arena, {200000}, DType::f32, MemoryCategory::weights);
  try {
    const Tensor too_much(arena, {100000}, DType::f32, MemoryCategory::activations);
    FAIL("the limit was not kept");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::memory);
    CHECK_THAT(error.what(), Catch::Contains("activations") && Catch::Contains("weights 781") &&
                                 Catch::Contains("1.00 MiB") && Catch::Contains("micro_batch_size"));
  }
  CHECK(arena.counters().now_total == 800000);
}

TEST_CASE("the shape-only device counts what the cpu counts, without storage", "[device]") {
  const auto cpu = make_cpu_device(), shape_only = make_shape_only_device();
  Arena real(*cpu), dry(*shape_only);
  for (Arena* arena : {&real, &dry}) {
    const Tensor a(*arena, {33, 7}, DType::bf16, MemoryCategory::activations);
    const Tensor b = a.slice(1, 2, 5);
    CHECK(b.dim(1) == 3);
    const Tensor none(*arena, {0, 7}, DType::f32, MemoryCategory::gradients);
    CHECK(none.numel() == 0);
  }
  CHECK(real.counters().peak_total == dry.counters().peak_total);
  CHECK(real.counters().at_peak == dry.counters().at_peak);
}

}  // namespace trainctl
