// lib/checkpoint/checkpoint_reader.h -- reads boxes of logical tensors out of one checkpoint, whatever layout wrote it.
// No byte is handed out before the digest of its 4 MiB block was verified.
#pragma once

#include <cstdint>
#include <filesystem>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/format.h"
#include "checkpoint/posix_io.h"
#include "checkpoint/scan.h"

namespace trainctl {

// A block whose digest is wrong, twice in a row.
struct DamagedBlock {
  std::string file;
  int64_t block = 0;
  std::string expected, actual;
};

class CheckpointReader {
 public:
  // Throws Error{checkpoint} with the reason when the folder is not usable.
  explicit CheckpointReader(const std::filesystem::path& folder);

  const Manifest& manifest() const { return manifest_; }
  const CheckpointInfo& info() const { return info_; }
  const TensorRecord* find(const std::string& name, const std::string& role) const;

  // Fills `to` (contiguous, row-major over box.extent, `dtype`) with the elements of `box`. Aliases are followed, a
  // derived bf16 tensor is cast from what it derives from. Every element is written exactly once. Throws
  // Error{checkpoint} naming the tensor: dtype differs, box leaves the shape, damaged block.
  void read(const TensorRecord& tensor, const Box& box, DType dtype, void* to);

  int64_t bytes_read() const { return bytes_read_; }
  const DamagedBlock* damage() const { return damage_.get(); }  // what the last read() failed on; null: nothing

 private:
  struct OpenFile {
    const FileRecord* record;
    FileHandle handle;
  };
  struct Block {
    const FileRecord* file = nullptr;
    int64_t index = -1;
    std::vector<char> bytes;
  };
  OpenFile& open(const std::string& path);
  const Block& block(OpenFile& file, int64_t index);
  // Hands the verified bytes [begin, end) of a file to `use(data, count)` in order, block by block.
  template <class Use>
  void for_verified_bytes(OpenFile& file, int64_t begin, int64_t end, Use use);

  CheckpointInfo info_;
  Manifest manifest_;
  std::map<std::pair<std::string, std::string>, const TensorRecord*> index_;
  std::map<std::string, const FileRecord*> records_;
  std::map<std::string, OpenFile> files_;
  std::list<Block> cache_;  // most recent first, at most four
  std::unique_ptr<DamagedBlock> damage_;
  int64_t bytes_read_ = 0;
};

}  // namespace trainctl
