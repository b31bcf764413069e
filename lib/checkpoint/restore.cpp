// lib/checkpoint/restore.cpp -- checkpoint to catalog.
#include "checkpoint/restore.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/json_node.h"
#include "base/units.h"

namespace trainctl {
namespace {

constexpr int64_t kTensorAlignment = 64;
constexpr int64_t kBounceBytes = 64 << 20;  // of host memory on the way to a device, or one larger tensor

const TensorRecord* record_of(const CheckpointReader& reader, const StateEntry& e) {
  if (const TensorRecord* own = reader.find(e.name, e.role)) return own;
  return e.alias_of.empty() ? nullptr : reader.find(e.alias_of, e.role);
}

std::pair<std::string, int64_t> place_of(const TensorRecord& t) {
  return t.chunks.empty() ? std::pair<std::string, int64_t>()
                          : std::pair(t.chunks.front().file, t.chunks.front().byte_offset);
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

void restore_catalog(CheckpointReader& reader, const StateCatalog& catalog, Device& device) {
  if (const std::string faults = fit_faults(reader, catalog); !faults.empty())
    fail(ErrorKind::checkpoint,
         fmt::format("{} does not fit the model that is asked for:{}", reader.info().folder.string(), faults));
  std::vector<const StateEntry*> wanted;
  for (const StateEntry& e : catalog)
    if (e.box.extent.numel() > 0) wanted.push_back(&e);
  const auto request = [&reader](const StateEntry& e, void* to) {
    return ReadRequest{record_of(reader, e), e.box, e.local.dtype(), to};
  };
  std::vector<ReadRequest> requests;
  if (device.kind() == DeviceKind::cpu) {
    for (const StateEntry* e : wanted) requests.push_back(request(*e, e->local.data()));
    reader.read_all(requests);
    return;
  }
  const std::unique_ptr<Stream> stream = device.make_compute_stream();
  std::vector<char> bounce;
  // In the order of the files: neighbours share blocks.
  std::sort(wanted.begin(), wanted.end(), [&reader](const StateEntry* a, const StateEntry* b) {
    return place_of(*record_of(reader, *a)) < place_of(*record_of(reader, *b));
  });
  for (size_t begin = 0, end = 0; begin < wanted.size(); begin = end) {
    int64_t bytes = 0;
    while (end < wanted.size() && (end == begin || bytes + wanted[end]->local.bytes() <= kBounceBytes))
      bytes += round_up(wanted[end++]->local.bytes(), kTensorAlignment);
    bounce.resize(static_cast<size_t>(std::max(bytes, static_cast<int64_t>(bounce.size()))));
    requests.clear();
    int64_t at = 0;
    for (size_t i = begin; i < end; at += round_up(wanted[i++]->local.bytes(), kTensorAlignment))
      requests.push_back(request(*wanted[i], bounce.data() + at));
    reader.read_all(requests);
    for (size_t i = begin; i < end; ++i)
      device.copy_from_host(wanted[i]->local.data(), requests[i - begin].to, wanted[i]->local.bytes(), *stream);
    stream->synchronize();
  }
}

}  // namespace trainctl
