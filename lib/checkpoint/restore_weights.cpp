// lib/checkpoint/restore_weights.cpp -- the best stored form of each weight, box by box.
#include "checkpoint/restore_weights.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/json_node.h"

namespace trainctl {
namespace {

const TensorRecord* best_record(const CheckpointReader& reader, const std::string& name) {
  const TensorRecord* master = reader.find(name, "master");
  return master != nullptr ? master : reader.find(name, "weight");
}

bool readable(DType dtype) { return dtype == DType::f32 || dtype == DType::bf16; }

struct Task {
  const StateEntry* entry;
  const TensorRecord* record;
  std::string file;
  int64_t at;
};

// Widens the elements at the end of an f32 buffer that were read into its first half as bf16: from the last one on, so
// that none is overwritten before it was used.
void widen_in_place(float* data, int64_t count) {
  const auto* narrow = reinterpret_cast<const char*>(data);
  for (int64_t i = count; i-- > 0;) {
    bf16 value;
    std::memcpy(&value, narrow + i * 2, 2);
    const auto wide = static_cast<float>(value);
    std::memcpy(data + i, &wide, 4);
  }
}

}  // namespace

std::string weight_faults(const CheckpointReader& reader, const std::vector<WeightShape>& weights) {
  std::string faults;
  std::set<std::string> wanted;
  for (const WeightShape& w : weights) {
    wanted.insert(w.name);
    const TensorRecord* record = best_record(reader, w.name);
    if (record == nullptr)
      faults += fmt::format("\n  {}: is not in the checkpoint", in_quotes(w.name));
    else if (record->shape != w.shape)
      faults += fmt::format("\n  {}: has the shape {} there, {} here", in_quotes(w.name), to_string(record->shape),
                            to_string(w.shape));
    else if (!readable(record->dtype))
      faults += fmt::format("\n  {}: is {} there, not f32 or bf16", in_quotes(w.name), name(record->dtype));
  }
  std::set<std::string> reported;
  for (const TensorRecord& t : reader.manifest().tensors) {
    const bool weight = t.role == "weight" || t.role == "master";
    if (!weight || wanted.contains(t.name) || wanted.contains(t.alias_of) || !reported.insert(t.name).second) continue;
    faults += fmt::format("\n  {}: is in the checkpoint and not in the model", in_quotes(t.name));
  }
  return faults;
}

void restore_weights(CheckpointReader& reader, const StateCatalog& catalog, Device& device) {
  std::vector<Task> tasks;
  for (const StateEntry& e : catalog) {
    if (e.box.extent.numel() == 0) continue;
    const TensorRecord* record = best_record(reader, e.name);
    if (record == nullptr || record->shape != e.shape || !readable(record->dtype))
      fail(ErrorKind::checkpoint, fmt::format("{}: {} is not there as f32 or bf16 of shape {}",
                                              reader.info().folder.string(), in_quotes(e.name), to_string(e.shape)));
    ensure(e.local.dtype() == DType::f32 && e.local.contiguous() && e.local.numel() == e.box.extent.numel(),
           "weights are restored into contiguous f32 tensors");
    const TensorRecord* stored = record->alias_of.empty() ? record : reader.find(record->alias_of, record->role);
    Task task{&e, record, "", 0};
    if (stored != nullptr && !stored->chunks.empty()) {
      task.file = stored->chunks.front().file;
      task.at = stored->chunks.front().byte_offset;
    }
    tasks.push_back(std::move(task));
  }
  // In the order of the files: each block is then read about once.
  std::sort(tasks.begin(), tasks.end(),
            [](const Task& a, const Task& b) { return std::tie(a.file, a.at) < std::tie(b.file, b.at); });
  const bool host = device.kind() == DeviceKind::cpu;
  const std::unique_ptr<Stream> stream = host ? nullptr : device.make_compute_stream();
  std::vector<float> bounce;
  for (const Task& task : tasks) {
    const Tensor& local = task.entry->local;
    if (!host) bounce.resize(static_cast<size_t>(local.numel()));
    float* to = host ? static_cast<float*>(local.data()) : bounce.data();
    reader.read(*task.record, task.entry->box, task.record->dtype, to);
    if (task.record->dtype == DType::bf16) widen_in_place(to, local.numel());
    if (host) continue;
    device.copy_from_host(local.data(), to, local.bytes(), *stream);
    stream->synchronize();
  }
}

}  // namespace trainctl
