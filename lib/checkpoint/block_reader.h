// lib/checkpoint/block_reader.h -- verified 4 MiB blocks of a checkpoint's files, several reads in flight.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/agreement.h"
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

int64_t bytes_of(const BlockRef& block);

class BlockReader {
 public:
  // `folder` is the checkpoint's; the options take effect with the first read.
  BlockReader(std::filesystem::path folder, IoOptions io) : folder_(std::move(folder)), io_(std::move(io)) {}

  // Reads each block of `wanted` (no two equal; best in file order) and calls use(block, data, bytes) once for each, in
  // the order of `wanted`, after its digest was verified. `data` is good during the call, and longer for the deliveries
  // that `use` returns: until they are over, which is waited for only when more than kLentBuffers blocks are lent, then
  // for the oldest, and by settle(). A block that an earlier call left in memory is not read again. Throws
  // Error{checkpoint}: damage, a failing read; what is lent stays lent.
  using Use = std::function<std::vector<DeliveryPtr>(const BlockRef& block, const char* data, int64_t bytes)>;
  void read(const std::vector<BlockRef>& wanted, const Use& use);
  void settle();  // waits until nothing is lent
  static constexpr int kLentBuffers = 4;

  int64_t bytes_read() const { return bytes_read_; }  // from files, repeats included
  std::string io_path() const { return transfers_ ? transfers_->path_in_use() : ""; }
  const DamagedBlock* damage() const { return damage_.get(); }  // what the last read() failed on; null: nothing

 private:
  struct Slot {
    std::unique_ptr<IoBuffer> buffer;
    BlockRef block;  // file null: holds nothing
    bool asked_for = false, in_flight = false, verified = false;
    std::vector<DeliveryPtr> lent;  // they read from the buffer
    uint64_t last_use = 0;
  };
  void start();
  void ask_for(const BlockRef& block);
  size_t free_slot();
  void request(size_t slot, const BlockRef& block);
  Slot& arrived(const BlockRef& block);
  void verify(Slot& slot);
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
