// lib/tensor/catalog.cpp -- coverage: owners' boxes are inside, disjoint and fill the logical shape.
#include "tensor/catalog.h"

#include <map>

namespace trainctl {
namespace {

bool overlap(const Box& a, const Box& b) {
  for (int d = 0; d < a.offset.rank(); ++d)
    if (a.offset[d] + a.extent[d] <= b.offset[d] || b.offset[d] + b.extent[d] <= a.offset[d]) return false;
  return true;
}

}  // namespace

std::vector<std::string> coverage_faults(const std::vector<StateEntry>& entries) {
  std::vector<std::string> faults;
  std::map<std::string, std::vector<const StateEntry*>> by_key;
  for (const StateEntry& e : entries)
    if (e.owner && e.alias_of.empty()) by_key[e.name + "|" + e.role].push_back(&e);
  for (const auto& [key, parts] : by_key) {
    const Shape& shape = parts.front()->shape;
    int64_t volume = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      const Box& box = parts[i]->box;
      if (parts[i]->shape != shape) faults.push_back(key + ": ranks disagree about the logical shape");
      for (int d = 0; d < shape.rank(); ++d)
        if (box.offset[d] < 0 || box.extent[d] < 0 || box.offset[d] + box.extent[d] > shape[d])
          faults.push_back(fmt::format("{}: box at {} of extent {} leaves the shape {}", key, to_string(box.offset),
                                       to_string(box.extent), to_string(shape)));
      volume += box.extent.numel();
      for (size_t j = 0; j < i; ++j)
        if (box.extent.numel() > 0 && parts[j]->box.extent.numel() > 0 && overlap(box, parts[j]->box))
          faults.push_back(fmt::format("{}: two owners hold the element at {}", key, to_string(box.offset)));
    }
    if (volume != shape.numel())
      faults.push_back(fmt::format("{}: owners hold {} of {} elements", key, volume, shape.numel()));
  }
  return faults;
}

}  // namespace trainctl
