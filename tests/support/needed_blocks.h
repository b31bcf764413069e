// tests/support/needed_blocks.h -- which blocks of a checkpoint a rank needs, found without the reader's own search.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "checkpoint/checkpoint_reader.h"

namespace trainctl::testing {

using BlockSet = std::set<std::pair<std::string, int64_t>>;  // file, block

// The blocks in which elements of the boxes of `catalog` lie, contiguous piece by piece.
inline BlockSet needed_blocks(const CheckpointReader& reader, const StateCatalog& catalog) {
  BlockSet blocks;
  for (const StateEntry& e : catalog) {
    const TensorRecord* tensor = reader.find(e.name, e.role);
    if (!tensor) tensor = reader.find(e.alias_of, e.role);
    if (!tensor) continue;
    const TensorRecord& stored = reader.storage_of(*tensor);
    const int64_t element = size_of(stored.dtype);
    for (const ChunkRecord& c : stored.chunks) {
      const std::optional<Box> common = intersect(c.box, e.box);
      if (!common) continue;
      for_each_run(*common, c.box, e.box, [&](int64_t source, int64_t, int64_t count) {
        const int64_t first = c.byte_offset + source * element, last = first + count * element - 1;
        for (int64_t b = first / kBlockBytes; b <= last / kBlockBytes; ++b) blocks.insert({c.file, b});
      });
    }
  }
  return blocks;
}

inline int64_t bytes_of_blocks(const Manifest& manifest, const BlockSet& blocks) {
  int64_t bytes = 0;
  for (const FileRecord& f : manifest.files)
    for (int64_t b = 0; b < std::ssize(f.block_xxh128); ++b)
      if (blocks.count({f.path, b})) bytes += bytes_of({&f, b});
  return bytes;
}

}  // namespace trainctl::testing
