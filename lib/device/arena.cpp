// lib/device/arena.cpp -- free lists by size over the device's allocator, and the counters.
#include "device/arena.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/units.h"

namespace trainctl {

std::string_view name(MemoryCategory category) {
  constexpr std::array<std::string_view, kMemoryCategories> names = {"weights",     "gradients",     "optimizer",
                                                                     "activations", "communication", "other"};
  return names[static_cast<size_t>(category)];
}

std::string_view name(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::cpu:
      return "cpu";
    case DeviceKind::cuda:
      return "cuda";
    case DeviceKind::shape_only:
      return "shape_only";
  }
  return "?";
}

Arena::Arena(Device& device, int64_t limit_bytes) : device_(device), limit_bytes_(limit_bytes) {}

Arena::~Arena() {
  for (const auto& [size, blocks] : free_)
    for (void* block : blocks) device_.release(block, block_bytes_.at(block));
}

void* Arena::allocate(int64_t bytes, MemoryCategory category) {
  ensure(bytes >= 0, "an allocation has a negative size");
  if (bytes == 0) return nullptr;
  const int64_t size = round_up(bytes, 64);
  if (limit_bytes_ > 0 && counters_.now_total + size > limit_bytes_) {
    std::string live;
    for (int c = 0; c < kMemoryCategories; ++c)
      live += fmt::format("{}{} {}", c ? ", " : "", name(static_cast<MemoryCategory>(c)),
                          human_bytes(counters_.now[static_cast<size_t>(c)]));
    fail(ErrorKind::memory,
         fmt::format(
             "out of memory: {} for {} on top of {} live ({}) passes the limit of {}; lower micro_batch_size or "
             "set runtime.recompute = \"full\"",
             human_bytes(size), name(category), human_bytes(counters_.now_total), live, human_bytes(limit_bytes_)));
  }
  void* block = nullptr;
  // A free block up to a quarter larger serves too: ragged shapes then do not each keep a block of their own.
  auto found = free_.lower_bound(size);
  while (found != free_.end() && found->second.empty()) found = free_.erase(found);
  if (found != free_.end() && found->first <= size + size / 4) {
    block = found->second.back();
    found->second.pop_back();
  } else {
    block = device_.allocate(size);
    block_bytes_[block] = size;
    ++counters_.system_allocations;
    counters_.system_bytes += size;
  }
  counters_.now[static_cast<size_t>(category)] += size;
  counters_.now_total += size;
  if (counters_.now_total > counters_.peak_total) {
    counters_.peak_total = counters_.now_total;
    counters_.at_peak = counters_.now;
  }
  return block;
}

void Arena::release(void* data, int64_t bytes, MemoryCategory category) {
  if (!data) return;
  const int64_t size = round_up(bytes, 64);
  counters_.now[static_cast<size_t>(category)] -= size;
  counters_.now_total -= size;
  free_[block_bytes_.at(data)].push_back(data);
}

}  // namespace trainctl
