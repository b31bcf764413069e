// lib/checkpoint/restore.cpp -- checkpoint to catalog.
#include "checkpoint/restore.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/json_node.h"

namespace trainctl {
namespace {

struct Task {
  const StateEntry* entry;
  const TensorRecord* record;
  std::string file;
  int64_t at;
};

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

void restore_catalog(CheckpointReader& reader, const StateCatalog& catalog, Device& device) {
  if (const std::string faults = fit_faults(reader, catalog); !faults.empty())
    fail(ErrorKind::checkpoint,
         fmt::format("{} does not fit the model that is asked for:{}", reader.info().folder.string(), faults));
  std::vector<Task> tasks;
  for (const StateEntry& e : catalog) {
    if (e.box.extent.numel() == 0) continue;
    Task task{&e, record_of(reader, e), "", 0};
    if (!task.record->chunks.empty()) {
      task.file = task.record->chunks.front().file;
      task.at = task.record->chunks.front().byte_offset;
    }
    tasks.push_back(std::move(task));
  }
  // In the order of the files: each block is then read about once.
  std::sort(tasks.begin(), tasks.end(),
            [](const Task& a, const Task& b) { return a.file != b.file ? a.file < b.file : a.at < b.at; });
  const bool host = device.kind() == DeviceKind::cpu;
  const std::unique_ptr<Stream> stream = host ? nullptr : device.make_compute_stream();
  std::vector<char> bounce;
  for (const Task& task : tasks) {
    const Tensor& local = task.entry->local;
    if (host) {
      reader.read(*task.record, task.entry->box, local.dtype(), local.data());
      continue;
    }
    bounce.resize(static_cast<size_t>(local.bytes()));
    reader.read(*task.record, task.entry->box, local.dtype(), bounce.data());
    device.copy_from_host(local.data(), bounce.data(), local.bytes(), *stream);
    stream->synchronize();
  }
}

}  // namespace trainctl
