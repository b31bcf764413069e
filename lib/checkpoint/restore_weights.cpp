// lib/checkpoint/restore_weights.cpp -- the best stored form of each weight, box by box.
#include "checkpoint/restore_weights.h"

#include <set>

#include "base/error.h"
#include "base/json_node.h"
#include "checkpoint/placing.h"

namespace trainctl {
namespace {

bool readable(DType dtype) { return dtype == DType::f32 || dtype == DType::bf16; }

}  // namespace

const TensorRecord* best_weight(const CheckpointReader& reader, const std::string& name) {
  const TensorRecord* master = reader.find(name, "master");
  return master != nullptr ? master : reader.find(name, "weight");
}

DType read_weights(CheckpointReader& reader, const std::vector<std::string>& names, std::vector<char>& to) {
  bool wide = false;
  for (const std::string& name : names) wide = wide || best_weight(reader, name)->dtype == DType::f32;
  const DType dtype = wide ? DType::f32 : DType::bf16;
  int64_t at = 0;
  for (const std::string& name : names) {
    const TensorRecord& record = *best_weight(reader, name);
    const int64_t count = record.shape.numel(), end = at + count * size_of(dtype);
    if (static_cast<int64_t>(to.size()) < end) to.resize(static_cast<size_t>(end));
    reader.read(record, whole(record.shape), record.dtype, to.data() + at);
    if (record.dtype != dtype) widen_in_place(to.data() + at, count);
    at = end;
  }
  return dtype;
}

std::string weight_faults(const CheckpointReader& reader, const std::vector<WeightShape>& weights) {
  std::string faults;
  std::set<std::string> wanted;
  for (const WeightShape& w : weights) {
    wanted.insert(w.name);
    const TensorRecord* record = best_weight(reader, w.name);
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

void restore_weights(CheckpointReader& reader, const StateCatalog& catalog, Device& device, const Agreement& ranks) {
  std::vector<Placement> placements;
  for (const StateEntry& e : catalog) {
    if (e.box.extent.numel() == 0) continue;
    const TensorRecord* record = best_weight(reader, e.name);
    if (record == nullptr || record->shape != e.shape || !readable(record->dtype))
      fail(ErrorKind::checkpoint, fmt::format("{}: {} is not there as f32 or bf16 of shape {}",
                                              reader.info().folder.string(), in_quotes(e.name), to_string(e.shape)));
    ensure(e.local.dtype() == DType::f32 && e.local.contiguous() && e.local.numel() == e.box.extent.numel(),
           "weights are restored into contiguous f32 tensors");
    placements.push_back({record, &e});
  }
  try {
    place_tensors(reader, placements, device, ranks);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::checkpoint) throw;
    // Said here: what others advise about a checkpoint that cannot be read is to resume from another one.
    throw Error(
        ErrorKind::checkpoint,
        fmt::format("{}\nwhat to do: trainctl checkpoint verify --full {} names all that is damaged; make or copy "
                    "it anew, or start from other weights (--init-from)",
                    e.what(), reader.info().folder.string()))
        .at(e.where());
  }
}

}  // namespace trainctl
