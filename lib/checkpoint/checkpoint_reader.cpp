// lib/checkpoint/checkpoint_reader.cpp -- from boxes to blocks, and from blocks to strided copies.
#include "checkpoint/checkpoint_reader.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "base/error.h"
#include "base/hash.h"
#include "base/json_node.h"
#include "checkpoint/shared_blocks.h"

namespace trainctl {
namespace {

std::string label_of(const TensorRecord& t) { return fmt::format("tensor {} ({})", in_quotes(t.name), t.role); }

void check_request(const ReadRequest& r) {
  const TensorRecord& t = *r.tensor;
  if (r.dtype != t.dtype)
    fail(ErrorKind::checkpoint,
         fmt::format("{} is stored as {}, {} is asked for; load it with the precision it was saved with", label_of(t),
                     name(t.dtype), name(r.dtype)));
  bool inside = r.box.offset.rank() == t.shape.rank() && r.box.extent.rank() == t.shape.rank();
  for (int d = 0; inside && d < t.shape.rank(); ++d)
    inside = r.box.offset[d] >= 0 && r.box.extent[d] >= 0 && r.box.offset[d] <= t.shape[d] &&
             r.box.extent[d] <= t.shape[d] - r.box.offset[d];
  if (!inside)
    fail(ErrorKind::checkpoint,
         fmt::format("{} has the shape {} here; a box at {} of extent {} is asked for", label_of(t), to_string(t.shape),
                     to_string(r.box.offset), to_string(r.box.extent)));
}

void cast_to_bf16(char* to, const char* from, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += 4, to += 2) {
    float value = 0;
    std::memcpy(&value, from + at, 4);
    const bf16 rounded(value);
    std::memcpy(to, &rounded, 2);
  }
}

}  // namespace

// What one chunk gives to one request.
struct CheckpointReader::Part {
  const FileRecord* file;
  const ChunkRecord* chunk;
  RunWalk walk;
  int64_t element;  // bytes in the file
  bool cast;        // f32 there, bf16 here
  char* to;

  int64_t begin(int64_t run) const { return chunk->byte_offset + walk.run(run).source * element; }
  int64_t run_bytes() const { return walk.length() * element; }
  int64_t first_run_beyond(int64_t byte) const {  // the first that ends after this byte of the file
    return byte < chunk->byte_offset ? 0 : walk.first_beyond((byte - chunk->byte_offset) / element);
  }
  auto source() const { return std::tuple(chunk, walk.run(0).source, walk.count(), walk.length()); }

  template <class Add>
  void for_each_block(Add add) const {
    int64_t next = 0;  // blocks before it are added or not needed
    for (int64_t run = 0; run < walk.count(); run = first_run_beyond(next * kBlockBytes)) {
      const int64_t last = (begin(run) + run_bytes() - 1) / kBlockBytes;
      for (int64_t block = std::max(next, begin(run) / kBlockBytes); block <= last; ++block) add(block);
      next = last + 1;
    }
  }

  void take(int64_t block, const char* data, int64_t bytes) const {
    const int64_t low = block * kBlockBytes, high = low + bytes;
    for (int64_t i = first_run_beyond(low); i < walk.count(); ++i) {
      const RunWalk::Run run = walk.run(i);
      const int64_t start = chunk->byte_offset + run.source * element;
      if (start >= high) break;
      const int64_t from = std::max(start, low), until = std::min(start + run_bytes(), high);
      const int64_t skipped = from - start;
      if (cast)
        cast_to_bf16(to + run.target * 2 + skipped / 2, data + (from - low), until - from);
      else
        std::memcpy(to + run.target * element + skipped, data + (from - low), static_cast<size_t>(until - from));
    }
  }
};

CheckpointReader::CheckpointReader(const std::filesystem::path& folder, IoOptions io)
    : info_(inspect_folder(folder, &manifest_)), blocks_(info_.folder, std::move(io)) {
  if (info_.state != CheckpointState::usable)
    fail(ErrorKind::checkpoint, fmt::format("{} cannot be used: {}", folder.string(), info_.reason));
  make_index();
}

CheckpointReader::CheckpointReader(const std::filesystem::path& folder, const std::string& manifest_text,
                                   const std::string& manifest_sha256, IoOptions io)
    : blocks_(folder, std::move(io)) {
  if (const std::string digest = sha256_hex(manifest_text); digest != manifest_sha256)
    fail(ErrorKind::checkpoint, fmt::format("the manifest of {} came here with the SHA-256 {}, rank 0 read {}",
                                            folder.string(), digest, manifest_sha256));
  manifest_ = manifest_from_text(manifest_text, (folder / kManifestName).string());
  info_.folder = folder;
  info_.state = CheckpointState::usable;
  info_.step = manifest_.step;
  info_.kind = manifest_.kind;
  info_.attempt = manifest_.attempt;
  info_.manifest_sha256 = manifest_sha256;
  for (const FileRecord& f : manifest_.files) info_.bytes += f.bytes;
  make_index();
}

void CheckpointReader::make_index() {
  for (const TensorRecord& t : manifest_.tensors) index_[{t.name, t.role}] = &t;
  for (const FileRecord& f : manifest_.files) records_[f.path] = &f;
}

const TensorRecord* CheckpointReader::find(const std::string& name, const std::string& role) const {
  const auto found = index_.find({name, role});
  return found == index_.end() ? nullptr : found->second;
}

const TensorRecord& CheckpointReader::storage_of(const TensorRecord& tensor) const {
  const TensorRecord* t = &tensor;
  if (!t->alias_of.empty()) t = find(t->alias_of, t->role);
  if (t && !t->derived_from_role.empty()) t = find(t->name, t->derived_from_role);
  ensure(t != nullptr, "a checked manifest points at a tensor that is not there");
  return *t;
}

LoadCost CheckpointReader::cost(const Agreement& ranks) const {
  LoadCost cost;
  cost.rank = {blocks_.bytes_read(), bytes_received_, bytes_needed_};
  cost.world = {ranks.sum(cost.rank.read), ranks.sum(cost.rank.received), ranks.sum(cost.rank.needed)};
  cost.stored = info_.bytes;
  cost.io_path = blocks_.io_path();
  return cost;
}

std::vector<CheckpointReader::Part> CheckpointReader::parts_of(const std::vector<ReadRequest>& requests) const {
  std::vector<Part> parts;
  for (const ReadRequest& r : requests) {
    check_request(r);
    const TensorRecord& from = storage_of(*r.tensor);
    const bool cast = from.dtype != r.dtype;  // only what is derived is stored as something else
    int64_t held = 0;
    for (const ChunkRecord& chunk : from.chunks) {
      const std::optional<Box> common = intersect(chunk.box, r.box);
      if (!common) continue;
      const int64_t element = size_of(from.dtype);
      if (chunk.byte_offset % element != 0)  // an element could then straddle two blocks
        fail(ErrorKind::checkpoint, fmt::format("{}: byte {} of {} is not aligned to its elements", label_of(from),
                                                chunk.byte_offset, chunk.file));
      held += common->extent.numel();
      parts.push_back({records_.at(chunk.file), &chunk, RunWalk(*common, chunk.box, r.box), element, cast,
                       static_cast<char*>(r.to)});
    }
    // The manifest's chunks are disjoint, so as many elements as the box has means each exactly once.
    if (held != r.box.extent.numel())
      fail(ErrorKind::checkpoint, fmt::format("{}: {} of {} elements of the box at {} are here", label_of(*r.tensor),
                                              held, r.box.extent.numel(), to_string(r.box.offset)));
  }
  return parts;
}

void CheckpointReader::read(const TensorRecord& tensor, const Box& box, DType dtype, void* to) {
  try {
    read_all({{&tensor, box, dtype, to}});
  } catch (const Error& e) {
    if (damage() == nullptr) throw;
    throw Error(e.kind(),
                fmt::format("{}\nwhat to do: trainctl checkpoint verify --full {} reads all of it and marks it "
                            "unusable; of a run the newest usable one before it is then taken",
                            e.what(), info_.folder.string()))
        .at(e.where());
  }
}

void CheckpointReader::read_all(const std::vector<ReadRequest>& requests, const Agreement& ranks) {
  std::vector<Part> parts;
  std::string fault;
  try {
    parts = parts_of(requests);
  } catch (const Error& e) {
    if (ranks.world == 1) throw;
    fault = e.what();
  }
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.source() < b.source(); });
  struct Need {
    BlockRef block;
    size_t part;
  };
  std::vector<Need> needs;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Part& p = parts[i];
    if (i == 0 || parts[i - 1].source() != p.source()) bytes_needed_ += p.walk.count() * p.run_bytes();
    p.for_each_block([&](int64_t block) { needs.push_back({{p.file, block}, i}); });
  }
  const auto before = [](const BlockRef& a, const BlockRef& b) {
    return std::tie(a.file->path, a.index) < std::tie(b.file->path, b.index);
  };
  std::sort(needs.begin(), needs.end(), [&](const Need& a, const Need& b) { return before(a.block, b.block); });
  std::vector<BlockRef> wanted;
  for (const Need& need : needs)
    if (wanted.empty() || !(wanted.back() == need.block)) wanted.push_back(need.block);
  const auto take = [&](const BlockRef& block, const char* data, int64_t bytes) {
    auto need = std::partition_point(needs.begin(), needs.end(), [&](const Need& n) { return before(n.block, block); });
    for (; need != needs.end() && need->block == block; ++need) parts[need->part].take(block.index, data, bytes);
  };
  if (ranks.world > 1) {
    bytes_received_ += read_shared_blocks(ranks, manifest_.files, blocks_, wanted, fault, take);
    return;
  }
  blocks_.read(wanted, [&](const BlockRef& block, const char* data, int64_t bytes) {
    take(block, data, bytes);
    return std::vector<DeliveryPtr>();
  });
}

}  // namespace trainctl
