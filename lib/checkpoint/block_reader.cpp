// lib/checkpoint/block_reader.cpp -- a ring of aligned buffers, filled ahead and verified one by one.
#include "checkpoint/block_reader.h"

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"
#include "base/units.h"

namespace trainctl {
namespace {

constexpr int kReadsInFlight = 4;  // more bring nothing and cost memory that must be touched first

int64_t bytes_of(const BlockRef& b) { return std::min(kBlockBytes, b.file->bytes - b.index * kBlockBytes); }

}  // namespace

void BlockReader::start() {
  damage_.reset();
  if (transfers_) return;
  io_.depth = std::min(io_.depth, kReadsInFlight);
  slots_.resize(static_cast<size_t>(io_.depth));
  transfers_ = std::make_unique<Transfers>(io_);
}

BlockReader::Slot* BlockReader::find(const BlockRef& block) {
  for (Slot& slot : slots_)
    if (slot.block == block && !slot.in_flight) return &slot;
  return nullptr;
}

size_t BlockReader::oldest_free() const {
  size_t best = slots_.size();
  for (size_t i = 0; i < slots_.size(); ++i)
    if (!slots_[i].in_flight && (best == slots_.size() || slots_[i].last_use < slots_[best].last_use)) best = i;
  ensure(best < slots_.size(), "no buffer is free although a transfer is");
  return best;
}

FileHandle& BlockReader::open(const FileRecord& file) {
  const auto known = files_.find(file.path);
  if (known != files_.end()) return known->second;
  FileHandle& opened = files_.emplace(file.path, FileHandle::open_for_reading(folder_ / file.path)).first->second;
  transfers_->prepare(opened);
  return opened;
}

void BlockReader::request(size_t index, const BlockRef& block) {
  Slot& slot = slots_[index];
  if (!slot.buffer) slot.buffer = std::make_unique<IoBuffer>(kBlockBytes);
  const int64_t need = bytes_of(block);
  slot.block = {};  // until it is asked for
  transfers_->start({.file = &open(*block.file),
                     .write = false,
                     .data = slot.buffer->data(),
                     .offset = block.index * kBlockBytes,
                     .bytes = round_up(need, kDirectAlignment),
                     .need = need,
                     .tag = index});
  slot.block = block;
  slot.in_flight = true;
  slot.last_use = ++clock_;
  bytes_read_ += need;
}

// Reads a wrong block again before judging: a fault on the way must not condemn a good file.
void BlockReader::verify(Slot& slot) {
  const FileRecord& file = *slot.block.file;
  const int64_t bytes = bytes_of(slot.block), begin = slot.block.index * kBlockBytes;
  const std::string& expected = file.block_xxh128[static_cast<size_t>(slot.block.index)];
  std::string actual;
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (attempt > 0) {
      FileHandle::open_for_reading(folder_ / file.path).read_at(slot.buffer->data(), bytes, begin);
      bytes_read_ += bytes;
    }
    actual = xxh128_hex(slot.buffer->data(), static_cast<size_t>(bytes));
    if (actual == expected) return;
  }
  damage_ = std::make_unique<DamagedBlock>(DamagedBlock{file.path, slot.block.index, expected, actual});
  fail(ErrorKind::checkpoint,
       fmt::format("{}: block {} (bytes {} to {}) has the digest {}, {} expected: the file is damaged",
                   (folder_ / file.path).string(), slot.block.index, begin, begin + bytes, actual, expected));
}

void BlockReader::read(const std::vector<BlockRef>& wanted, const Use& use) {
  start();
  std::vector<BlockRef> missing;
  for (const BlockRef& block : wanted) {
    Slot* slot = find(block);
    if (!slot) {
      missing.push_back(block);
      continue;
    }
    slot->last_use = ++clock_;
    use(block, slot->buffer->data(), bytes_of(block));
  }
  try {
    for (size_t next = 0; next < missing.size() || !transfers_->idle();) {
      while (next < missing.size() && !transfers_->full()) request(oldest_free(), missing[next++]);
      Slot& slot = slots_[transfers_->finish_one()];
      verify(slot);
      use(slot.block, slot.buffer->data(), bytes_of(slot.block));
      slot.in_flight = false;
    }
  } catch (...) {  // nothing may arrive in a buffer later, and none may pass for verified
    transfers_->abandon();
    for (Slot& slot : slots_) {
      slot.in_flight = false;
      slot.block = {};
    }
    throw;
  }
}

}  // namespace trainctl
