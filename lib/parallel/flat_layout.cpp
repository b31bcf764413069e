// lib/parallel/flat_layout.cpp -- see the header.
#include "parallel/flat_layout.h"

#include <map>

#include "base/units.h"

namespace trainctl {

FlatLayout lay_out(std::vector<std::unique_ptr<Module>>& modules) {
  constexpr int64_t kAlignment = 16;
  FlatLayout layout;
  std::map<std::string, ParameterPtr> by_name;
  for (auto& module : modules) {
    layout.elements = round_up(layout.elements, kAlignment);
    const int64_t begin = layout.elements;
    for (ParameterPtr* slot : module->parameters()) {
      const auto [known, is_new] = by_name.try_emplace((*slot)->spec.name, *slot);
      if (!is_new) {
        *slot = known->second;  // tied
        continue;
      }
      Parameter& p = **slot;
      if (!p.spec.stacked) layout.elements = round_up(layout.elements, kAlignment);
      p.flat_offset = layout.elements;
      layout.elements += p.box.extent.numel();
      layout.parameters.push_back(*slot);
    }
    layout.module_range.push_back({begin, layout.elements});
  }
  layout.elements = round_up(layout.elements, kAlignment);
  for (size_t m = 0; m + 1 < layout.module_range.size(); ++m)
    layout.module_range[m].end = layout.module_range[m + 1].begin;
  if (!layout.module_range.empty()) layout.module_range.back().end = layout.elements;

  for (const ParameterPtr& p : layout.parameters) {
    if (layout.runs.empty() || layout.runs.back().decay != p->spec.decay) {
      if (!layout.runs.empty()) layout.runs.back().range.end = p->flat_offset;
      layout.runs.push_back({{layout.runs.empty() ? 0 : p->flat_offset, layout.elements}, p->spec.decay});
    }
  }
  return layout;
}

}  // namespace trainctl
