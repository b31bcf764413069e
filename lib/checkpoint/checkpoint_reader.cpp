// lib/checkpoint/checkpoint_reader.cpp -- box intersection, verified blocks, strided copies.
#include "checkpoint/checkpoint_reader.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/hash.h"
#include "base/json_node.h"

namespace trainctl {
namespace {

constexpr size_t kCachedBlocks = 4;

std::string label_of(const TensorRecord& t) { return fmt::format("tensor {} ({})", in_quotes(t.name), t.role); }

}  // namespace

CheckpointReader::CheckpointReader(const std::filesystem::path& folder) {
  info_ = inspect_folder(folder, &manifest_);
  if (info_.state != CheckpointState::usable)
    fail(ErrorKind::checkpoint, fmt::format("{} cannot be used: {}", folder.string(), info_.reason));
  for (const TensorRecord& t : manifest_.tensors) index_[{t.name, t.role}] = &t;
  for (const FileRecord& f : manifest_.files) records_[f.path] = &f;
}

const TensorRecord* CheckpointReader::find(const std::string& name, const std::string& role) const {
  const auto found = index_.find({name, role});
  return found == index_.end() ? nullptr : found->second;
}

CheckpointReader::OpenFile& CheckpointReader::open(const std::string& path) {
  const auto known = files_.find(path);
  if (known != files_.end()) return known->second;
  FileHandle handle = FileHandle::open_for_reading(info_.folder / path);
  return files_.emplace(path, OpenFile{records_.at(path), std::move(handle)}).first->second;
}

const CheckpointReader::Block& CheckpointReader::block(OpenFile& file, int64_t index) {
  for (auto it = cache_.begin(); it != cache_.end(); ++it)
    if (it->file == file.record && it->index == index) {
      cache_.splice(cache_.begin(), cache_, it);
      return cache_.front();
    }
  Block fresh;
  if (cache_.size() >= kCachedBlocks) {
    fresh = std::move(cache_.back());
    cache_.pop_back();
  }
  const int64_t begin = index * kBlockBytes;
  const int64_t bytes = std::min(kBlockBytes, file.record->bytes - begin);
  fresh.bytes.resize(static_cast<size_t>(bytes));
  const std::string& expected = file.record->block_xxh128[static_cast<size_t>(index)];
  std::string actual;
  // Read again before judging: a fault on the way must not condemn a good file.
  for (int attempt = 0; attempt < 2 && actual != expected; ++attempt) {
    file.handle.read_at(fresh.bytes.data(), bytes, begin);
    bytes_read_ += bytes;
    actual = xxh128_hex(fresh.bytes.data(), fresh.bytes.size());
  }
  if (actual != expected) {
    damage_ = std::make_unique<DamagedBlock>(DamagedBlock{file.record->path, index, expected, actual});
    fail(ErrorKind::checkpoint,
         fmt::format("{}: block {} (bytes {} to {}) has the digest {}, {} expected: the file is damaged",
                     file.handle.path().string(), index, begin, begin + bytes, actual, expected));
  }
  fresh.file = file.record;
  fresh.index = index;
  cache_.push_front(std::move(fresh));
  return cache_.front();
}

template <class Use>
void CheckpointReader::for_verified_bytes(OpenFile& file, int64_t begin, int64_t end, Use use) {
  while (begin < end) {
    const int64_t index = begin / kBlockBytes;
    const int64_t stop = std::min(end, (index + 1) * kBlockBytes);
    use(block(file, index).bytes.data() + (begin - index * kBlockBytes), stop - begin);
    begin = stop;
  }
}

void CheckpointReader::read(const TensorRecord& wanted, const Box& box, DType dtype, void* to) {
  damage_.reset();
  const TensorRecord* from = &wanted;
  if (!from->alias_of.empty()) from = find(from->alias_of, from->role);
  const bool cast = from && !from->derived_from_role.empty();
  if (cast) from = find(from->name, from->derived_from_role);
  ensure(from != nullptr, "a checked manifest points at a tensor that is not there");
  if (dtype != wanted.dtype)
    fail(ErrorKind::checkpoint,
         fmt::format("{} is stored as {}, {} is asked for; load it with the precision it was saved with",
                     label_of(wanted), name(wanted.dtype), name(dtype)));
  bool inside = box.offset.rank() == wanted.shape.rank() && box.extent.rank() == wanted.shape.rank();
  for (int d = 0; inside && d < wanted.shape.rank(); ++d)
    inside = box.offset[d] >= 0 && box.extent[d] >= 0 && box.offset[d] <= wanted.shape[d] &&
             box.extent[d] <= wanted.shape[d] - box.offset[d];
  if (!inside)
    fail(ErrorKind::checkpoint,
         fmt::format("{} has the shape {} here; a box at {} of extent {} is asked for", label_of(wanted),
                     to_string(wanted.shape), to_string(box.offset), to_string(box.extent)));

  const int64_t source_size = size_of(from->dtype), target_size = size_of(dtype);
  int64_t written = 0;
  std::vector<std::pair<const ChunkRecord*, Box>> parts;
  for (const ChunkRecord& chunk : from->chunks)
    if (const auto common = intersect(chunk.box, box)) parts.emplace_back(&chunk, *common);
  std::sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) {
    return std::pair(std::string_view(a.first->file), a.first->byte_offset) <
           std::pair(std::string_view(b.first->file), b.first->byte_offset);
  });
  for (const auto& [chunk, common] : parts) {
    OpenFile& file = open(chunk->file);
    for_each_run(common, chunk->box, box, [&](int64_t source, int64_t target, int64_t count) {
      char* out = static_cast<char*>(to) + target * target_size;
      const int64_t begin = chunk->byte_offset + source * source_size;
      for_verified_bytes(file, begin, begin + count * source_size, [&](const char* data, int64_t bytes) {
        if (!cast) {
          std::memcpy(out, data, static_cast<size_t>(bytes));
          out += bytes;
          return;
        }
        for (int64_t at = 0; at < bytes; at += 4, out += 2) {  // elements are aligned: none straddles a block
          float value = 0;
          std::memcpy(&value, data + at, 4);
          const bf16 rounded(value);
          std::memcpy(out, &rounded, 2);
        }
      });
      written += count;
    });
  }
  // The manifest's chunks are disjoint, so as many elements as the box has means each exactly once.
  if (written != box.extent.numel())
    fail(ErrorKind::checkpoint, fmt::format("{}: {} of {} elements of the box at {} are here", label_of(wanted),
                                            written, box.extent.numel(), to_string(box.offset)));
}

}  // namespace trainctl
