// lib/checkpoint/block_reader.h -- verified 4 MiB blocks of a checkpoint's files, several reads in flight.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/format.h"
#include "checkpoint/io_buffer.h"
#include "checkpoint/transfers.h"

namespace trainctl {

// A block whose digest is wrong, twice in a row.
struct DamagedBlock {
  std::string file;
  int64_t block = 0;
  std::string expected, actual;
};

struct BlockRef {
  const FileRecord* file = nullptr;
  int64_t index = 0;
  bool operator==(const BlockRef&) const = default;
};

class BlockReader {
 public:
  // `folder` is the checkpoint's; the options take effect with the first read.
  BlockReader(std::filesystem::path folder, IoOptions io) : folder_(std::move(folder)), io_(std::move(io)) {}

  // Reads each block of `wanted` (no two equal; best in file order, neighbours are read together) and calls
  // use(block, data, bytes) once for each, in any order, after its digest was verified; `data` is good during the call.
  // A block that an earlier call left in memory is not read again. Throws Error{checkpoint}: damage, a failing read.
  using Use = std::function<void(const BlockRef& block, const char* data, int64_t bytes)>;
  void read(const std::vector<BlockRef>& wanted, const Use& use);

  int64_t bytes_read() const { return bytes_read_; }  // from files, repeats included
  std::string io_path() const { return transfers_ ? transfers_->path_in_use() : ""; }
  const DamagedBlock* damage() const { return damage_.get(); }  // what the last read() failed on; null: nothing

 private:
  struct Slot {
    std::unique_ptr<IoBuffer> buffer;
    const FileRecord* file = nullptr;  // null: holds nothing
    int64_t first = 0, count = 0;      // blocks
    bool in_flight = false;
    uint64_t last_use = 0;
  };
  void start();
  Slot* find(const BlockRef& block);
  size_t oldest_free() const;
  void request(size_t slot, const BlockRef& first, int64_t count);
  void verify(Slot& slot, int64_t index, const char* data, int64_t bytes);
  FileHandle& open(const FileRecord& file);

  std::filesystem::path folder_;
  IoOptions io_;
  std::map<std::string, FileHandle> files_;
  std::vector<Slot> slots_;
  std::unique_ptr<Transfers> transfers_;  // after files and slots: it goes first and waits for what is in flight
  std::unique_ptr<DamagedBlock> damage_;
  uint64_t clock_ = 0;
  int64_t bytes_read_ = 0;
};

}  // namespace trainctl
