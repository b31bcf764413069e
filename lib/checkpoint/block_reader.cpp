// lib/checkpoint/block_reader.cpp -- a ring of aligned buffers, filled ahead and verified one by one.
#include "checkpoint/block_reader.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/units.h"

namespace trainctl {
namespace {

constexpr int kReadsInFlight = 4;  // more bring nothing and cost memory that must be touched first

bool ended(const DeliveryPtr& delivery) {
  if (!delivery->done()) return false;
  delivery->wait();  // says whether it went well
  return true;
}

}  // namespace

int64_t bytes_of(const BlockRef& b) { return std::min(kBlockBytes, b.file->bytes - b.index * kBlockBytes); }

void BlockReader::start() {
  if (transfers_) return;
  io_.depth = std::min(io_.depth, kReadsInFlight);
  slots_.resize(static_cast<size_t>(io_.depth));
  transfers_ = std::make_unique<Transfers>(io_);
}

// The one that was used longest ago; where all are taken one more, up to a limit, and then the first to come back.
size_t BlockReader::free_slot() {
  size_t best = slots_.size(), lent = slots_.size();
  for (size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (slot.asked_for) continue;
    std::erase_if(slot.lent, ended);
    size_t& oldest = slot.lent.empty() ? best : lent;
    if (oldest == slots_.size() || slot.last_use < slots_[oldest].last_use) oldest = i;
  }
  if (best < slots_.size()) return best;
  if (slots_.size() < static_cast<size_t>(io_.depth + kLentBuffers)) {
    slots_.emplace_back();
    return slots_.size() - 1;
  }
  ensure(lent < slots_.size(), "more blocks are asked for than there are buffers");
  for (const DeliveryPtr& delivery : slots_[lent].lent) delivery->wait();
  slots_[lent].lent.clear();
  return lent;
}

void BlockReader::ask_for(const BlockRef& block) {
  size_t index = 0;
  while (index < slots_.size() && !(slots_[index].block == block)) ++index;
  if (index == slots_.size()) request(index = free_slot(), block);
  slots_[index].asked_for = true;
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
  slot.block = {};  // until it is on its way
  transfers_->start({.file = &open(*block.file),
                     .write = false,
                     .data = slot.buffer->data(),
                     .offset = block.index * kBlockBytes,
                     .bytes = round_up(need, kDirectAlignment),
                     .need = need,
                     .tag = index});
  slot.block = block;
  slot.in_flight = true;
  slot.verified = false;
  bytes_read_ += need;
}

BlockReader::Slot& BlockReader::arrived(const BlockRef& block) {
  const auto slot = std::find_if(slots_.begin(), slots_.end(), [&](const Slot& s) { return s.block == block; });
  ensure(slot != slots_.end(), "a block is waited for that was not asked for");
  while (slot->in_flight) slots_[transfers_->finish_one()].in_flight = false;
  if (!slot->verified) verify(*slot);
  slot->verified = true;
  return *slot;
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
  damage_.reset();
  if (wanted.empty()) return;
  start();
  try {
    const auto ahead = static_cast<size_t>(io_.depth);
    size_t asked = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
      for (; asked < wanted.size() && asked < i + ahead; ++asked) ask_for(wanted[asked]);
      Slot& slot = arrived(wanted[i]);
      slot.lent = use(slot.block, slot.buffer->data(), bytes_of(slot.block));
      slot.asked_for = false;
      slot.last_use = ++clock_;
    }
  } catch (...) {  // nothing may arrive in a buffer later, and none may pass for verified
    transfers_->abandon();
    for (Slot& slot : slots_) {
      slot.block = {};
      slot.asked_for = slot.in_flight = slot.verified = false;
    }
    throw;
  }
}

void BlockReader::settle() {
  for (Slot& slot : slots_)
    for (const std::vector<DeliveryPtr> lent = std::exchange(slot.lent, {}); const DeliveryPtr& delivery : lent)
      delivery->wait();
}

}  // namespace trainctl
