// lib/checkpoint/block_reader.cpp -- a ring of aligned buffers, filled ahead and verified one by one.
#include "checkpoint/block_reader.h"

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"
#include "base/units.h"

namespace trainctl {
namespace {

constexpr int64_t kBlocksPerRead = 2;
constexpr int kReadsInFlight = 4;  // more bring nothing and cost memory that must be touched first

int64_t bytes_of(const FileRecord& file, int64_t block) {
  return std::min(kBlockBytes, file.bytes - block * kBlockBytes);
}

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
    if (slot.file == block.file && !slot.in_flight && slot.first <= block.index &&
        block.index < slot.first + slot.count)
      return &slot;
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

void BlockReader::request(size_t index, const BlockRef& first, int64_t count) {
  Slot& slot = slots_[index];
  if (!slot.buffer) slot.buffer = std::make_unique<IoBuffer>(kBlocksPerRead * kBlockBytes);
  const int64_t begin = first.index * kBlockBytes;
  const int64_t need = std::min(count * kBlockBytes, first.file->bytes - begin);
  slot.file = nullptr;  // until it is whole
  transfers_->start({.file = &open(*first.file),
                     .write = false,
                     .data = slot.buffer->data(),
                     .offset = begin,
                     .bytes = round_up(need, kDirectAlignment),
                     .need = need,
                     .tag = index});
  slot.file = first.file;
  slot.first = first.index;
  slot.count = count;
  slot.in_flight = true;
  slot.last_use = ++clock_;
  bytes_read_ += need;
}

// Reads a wrong block again before judging: a fault on the way must not condemn a good file.
void BlockReader::verify(Slot& slot, int64_t index, const char* data, int64_t bytes) {
  const FileRecord& file = *slot.file;
  const std::string& expected = file.block_xxh128[static_cast<size_t>(index)];
  std::string actual = xxh128_hex(data, static_cast<size_t>(bytes));
  if (actual == expected) return;
  std::vector<char> again(static_cast<size_t>(bytes));
  FileHandle::open_for_reading(folder_ / file.path).read_at(again.data(), bytes, index * kBlockBytes);
  bytes_read_ += bytes;
  actual = xxh128_hex(again.data(), again.size());
  if (actual == expected) {
    std::copy(again.begin(), again.end(), slot.buffer->data() + (index - slot.first) * kBlockBytes);
    return;
  }
  damage_ = std::make_unique<DamagedBlock>(DamagedBlock{file.path, index, expected, actual});
  const int64_t begin = index * kBlockBytes;
  fail(ErrorKind::checkpoint,
       fmt::format("{}: block {} (bytes {} to {}) has the digest {}, {} expected: the file is damaged",
                   (folder_ / file.path).string(), index, begin, begin + bytes, actual, expected));
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
    use(block, slot->buffer->data() + (block.index - slot->first) * kBlockBytes, bytes_of(*block.file, block.index));
  }
  try {
    for (size_t next = 0; next < missing.size() || !transfers_->idle();) {
      while (next < missing.size() && !transfers_->full()) {
        int64_t count = 1;
        while (count < kBlocksPerRead && next + static_cast<size_t>(count) < missing.size() &&
               missing[next + static_cast<size_t>(count)] == BlockRef{missing[next].file, missing[next].index + count})
          ++count;
        request(oldest_free(), missing[next], count);
        next += static_cast<size_t>(count);
      }
      Slot& slot = slots_[transfers_->finish_one()];
      for (int64_t b = 0; b < slot.count; ++b) {
        const char* data = slot.buffer->data() + b * kBlockBytes;
        const int64_t bytes = bytes_of(*slot.file, slot.first + b);
        verify(slot, slot.first + b, data, bytes);
        use({slot.file, slot.first + b}, data, bytes);
      }
      slot.in_flight = false;
    }
  } catch (...) {  // nothing may arrive in a buffer later, and none may pass for verified
    transfers_->abandon();
    for (Slot& slot : slots_) {
      slot.in_flight = false;
      slot.file = nullptr;
    }
    throw;
  }
}

}  // namespace trainctl
