// lib/checkpoint/restore.cpp -- checkpoint to catalog.
#include "checkpoint/restore.h"

#include <vector>

#include "base/error.h"
#include "base/json_node.h"
#include "checkpoint/placing.h"

namespace trainctl {
namespace {

const TensorRecord* record_of(const CheckpointReader& reader, const StateEntry& e) {
  if (const TensorRecord* own = reader.find(e.name, e.role)) return own;
  return e.alias_of.empty() ? nullptr : reader.find(e.alias_of, e.role);
}

}  // namespace

std::string fit_faults(const CheckpointReader& reader, const StateCatalog& catalog) {
  std::string faults;
  for (const StateEntry& e : catalog) {
    const auto fault = [&faults, &e](const std::string& what) {
      faults += fmt::format("\n  {} ({}): {}", in_quotes(e.name), e.role, what);
    };
    const TensorRecord* record = record_of(reader, e);
    if (!record) {
      fault("is not in the checkpoint");
      continue;
    }
    if (record->shape != e.shape)
      fault(fmt::format("has the shape {} there, {} here", to_string(record->shape), to_string(e.shape)));
    if (record->dtype != e.local.dtype())
      fault(fmt::format("is {} there, {} here", name(record->dtype), name(e.local.dtype())));
    if (!e.local.contiguous() || e.local.numel() != e.box.extent.numel())
      fault("the local tensor does not match its box");
  }
  return faults;
}

void restore_catalog(CheckpointReader& reader, const StateCatalog& catalog, Device& device, const Agreement& ranks) {
  if (const std::string faults = fit_faults(reader, catalog); !faults.empty())
    fail(ErrorKind::checkpoint,
         fmt::format("{} does not fit the model that is asked for:{}", reader.info().folder.string(), faults));
  std::vector<Placement> placements;
  for (const StateEntry& e : catalog)
    if (e.box.extent.numel() > 0) placements.push_back({record_of(reader, e), &e});
  place_tensors(reader, placements, device, ranks);
}

}  // namespace trainctl
