// lib/checkpoint/placing.cpp -- one reading into host memory, or batches through a bounce buffer.
#include "checkpoint/placing.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include "base/units.h"

namespace trainctl {
namespace {

constexpr int64_t kTensorAlignment = 64;

// Reads each placement to its place in host memory.
void read_to(CheckpointReader& reader, const std::vector<Placement>& placements, const std::vector<char*>& to,
             const Agreement& ranks) {
  std::vector<ReadRequest> requests;
  for (size_t i = 0; i < placements.size(); ++i)
    requests.push_back({placements[i].from, placements[i].to->box, placements[i].from->dtype, to[i]});
  reader.read_all(requests, ranks);
  for (size_t i = 0; i < placements.size(); ++i)
    if (placements[i].from->dtype != placements[i].to->local.dtype())
      widen_in_place(to[i], placements[i].to->local.numel());
}

// The batch of each stored tensor: in the order of the files, since neighbours share blocks. A function of the manifest
// alone.
std::map<const TensorRecord*, size_t> batches_of(const CheckpointReader& reader, int64_t bounce_bytes, size_t& count) {
  struct Stored {
    const TensorRecord* tensor;
    std::string file;
    int64_t at, bytes;
  };
  std::vector<Stored> all;
  for (const TensorRecord& t : reader.manifest().tensors) {
    Stored stored{&t, "", 0, 0};
    for (const ChunkRecord& chunk : reader.storage_of(t).chunks) {
      if (stored.file.empty()) stored.file = chunk.file, stored.at = chunk.byte_offset;
      stored.bytes += round_up(chunk.byte_length, kTensorAlignment);
    }
    all.push_back(std::move(stored));
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Stored& a, const Stored& b) { return std::tie(a.file, a.at) < std::tie(b.file, b.at); });
  std::map<const TensorRecord*, size_t> batches;
  int64_t bytes = 0;
  count = 0;
  for (const Stored& stored : all) {
    if (count == 0 || bytes + stored.bytes > bounce_bytes) ++count, bytes = 0;
    bytes += stored.bytes;
    batches[stored.tensor] = count - 1;
  }
  return batches;
}

}  // namespace

void widen_in_place(char* data, int64_t count) {
  for (int64_t i = count; i-- > 0;) {  // from the last one on: none is overwritten before it was used
    bf16 value;
    std::memcpy(&value, data + i * 2, 2);
    const auto wide = static_cast<float>(value);
    std::memcpy(data + i * 4, &wide, 4);
  }
}

void place_tensors(CheckpointReader& reader, const std::vector<Placement>& placements, Device& device,
                   const Agreement& ranks, int64_t bounce_bytes) {
  if (device.kind() == DeviceKind::cpu) {
    std::vector<char*> to;
    for (const Placement& p : placements) to.push_back(static_cast<char*>(p.to->local.data()));
    return read_to(reader, placements, to, ranks);
  }
  size_t count = 0;
  const std::map<const TensorRecord*, size_t> batches = batches_of(reader, bounce_bytes, count);
  std::vector<std::vector<Placement>> of_batch(count);
  for (const Placement& p : placements) of_batch[batches.at(p.from)].push_back(p);
  const std::unique_ptr<Stream> stream = device.make_compute_stream();
  std::vector<char> bounce;
  for (const std::vector<Placement>& batch : of_batch) {
    int64_t bytes = 0;
    for (const Placement& p : batch) bytes += round_up(p.to->local.bytes(), kTensorAlignment);
    bounce.resize(static_cast<size_t>(std::max(bytes, static_cast<int64_t>(bounce.size()))));
    std::vector<char*> to;
    int64_t at = 0;
    for (const Placement& p : batch) {
      to.push_back(bounce.data() + at);
      at += round_up(p.to->local.bytes(), kTensorAlignment);
    }
    read_to(reader, batch, to, ranks);
    for (size_t i = 0; i < batch.size(); ++i)
      device.copy_from_host(batch[i].to->local.data(), to[i], batch[i].to->local.bytes(), *stream);
    stream->synchronize();
  }
}

}  // namespace trainctl
