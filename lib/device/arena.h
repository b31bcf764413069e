// lib/device/arena.h -- the counting allocator: every byte of every tensor comes from here, under a category.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "device/device.h"

namespace trainctl {

enum class MemoryCategory : uint8_t { weights, gradients, optimizer, activations, communication, other };
inline constexpr int kMemoryCategories = 6;
std::string_view name(MemoryCategory category);

struct MemoryCounters {
  std::array<int64_t, kMemoryCategories> now{};      // live bytes
  std::array<int64_t, kMemoryCategories> at_peak{};  // live bytes at the moment the total was largest
  int64_t now_total = 0, peak_total = 0;
  int64_t system_allocations = 0;  // calls to Device::allocate
  int64_t system_bytes = 0;        // bytes held from the device, free blocks included
};

// Sizes are rounded up to 64 bytes; freed blocks are kept and reused by size. Belongs to one rank's compute thread.
class Arena {
 public:
  explicit Arena(Device& device, int64_t limit_bytes = 0);  // limit 0: none; on live bytes
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Never null for bytes > 0. Throws Error{memory}: bytes asked, category, live bytes by category, limit.
  void* allocate(int64_t bytes, MemoryCategory category);
  void release(void* data, int64_t bytes, MemoryCategory category);
  Device& device() const { return device_; }
  const MemoryCounters& counters() const { return counters_; }

 private:
  Device& device_;
  int64_t limit_bytes_;
  MemoryCounters counters_;
  std::map<int64_t, std::vector<void*>> free_;  // by rounded size
  std::map<void*, int64_t> block_bytes_;        // what the device gave
};

}  // namespace trainctl
