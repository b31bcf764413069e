// lib/checkpoint/shared_blocks.cpp -- the plan of a node, and the exchange: reading, handing out and receiving at once.
#include "checkpoint/shared_blocks.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/units.h"

namespace trainctl {
namespace {

constexpr size_t kReceives = 4;  // blocks on their way here
constexpr size_t kDigestDigits = 32;

// The blocks of all files in one row.
class BlockNumbers {
 public:
  explicit BlockNumbers(const std::vector<FileRecord>& files) : files_(files) {
    for (const FileRecord& file : files) {
      first_.push_back(count_);
      count_ += std::ssize(file.block_xxh128);
    }
  }
  int64_t count() const { return count_; }
  int64_t of(const BlockRef& block) const {
    return first_[static_cast<size_t>(block.file - files_.data())] + block.index;
  }
  BlockRef at(int64_t number) const {
    const auto file = std::upper_bound(first_.begin(), first_.end(), number) - first_.begin() - 1;
    return {&files_[static_cast<size_t>(file)], number - first_[static_cast<size_t>(file)]};
  }

 private:
  const std::vector<FileRecord>& files_;
  std::vector<int64_t> first_;
  int64_t count_ = 0;
};

// What must have been taken before a step is handed out: the steps before this one.
size_t far_before(size_t step) { return step - std::min<size_t>(step, BlockReader::kLentBuffers); }

// What passes through, since the ranks are then no longer in step.
bool is_of_the_exchange(ErrorKind kind) {
  return kind == ErrorKind::comm || kind == ErrorKind::hang || kind == ErrorKind::rank_failed;
}

// Blocks are handed over in the order of the plan's steps. No ranks can wait for each other in a circle: a rank takes
// what it receives in this order; before it hands out a step it takes all that lie more than kLentBuffers before; and
// it waits for a buffer that it lent only when it has lent more than that, so it has taken whatever comes before the
// step of that buffer. Of the steps that ranks wait for, the earliest can therefore always go on.
class NodeReading {
 public:
  NodeReading(const Agreement& ranks, const std::vector<FileRecord>& files, BlockReader& reader, const TakeBlock& take)
      : world_(ranks), ranks_(ranks.node.ranks), blocks_(files), reader_(reader), take_(take) {
    if (ranks_.empty()) ranks_ = {ranks.rank};
    const auto me = std::find(ranks_.begin(), ranks_.end(), ranks.rank);
    ensure(me != ranks_.end(), "a rank is missing among the ranks of its own node");
    me_ = static_cast<size_t>(me - ranks_.begin());
  }

  void exchange_needs(const std::vector<BlockRef>& wanted, std::string fault);
  void read();
  int64_t bytes_received() const { return bytes_received_; }

 private:
  struct Arrival {
    size_t step = 0;
    const IoBuffer* buffer = nullptr;
    DeliveryPtr delivery;
  };
  BlockRef block_at(size_t step) const { return blocks_.at(plan_.shared[step].block); }
  std::vector<DeliveryPtr> hand_out(size_t step, const char* data) const;
  void finish(const std::vector<size_t>& unread);
  void expect_more();
  void take_first();
  void take_before(size_t step);

  const Agreement& world_;
  std::vector<int64_t> ranks_;
  size_t me_ = 0;
  BlockNumbers blocks_;
  BlockReader& reader_;
  const TakeBlock& take_;
  std::vector<std::vector<bool>> needs_;  // per rank of the node
  SharingPlan plan_;
  std::vector<std::unique_ptr<IoBuffer>> buffers_;  // arrival k is in buffer k % kReceives
  std::deque<Arrival> arrivals_;                    // the first is the next to be taken; after buffers_: it goes first
  size_t expected_ = 0, next_step_ = 0;             // arrivals so far; the first step not looked at for one
  std::string came_wrong_;                          // the first that did
  int64_t bytes_received_ = 0;
};

void NodeReading::exchange_needs(const std::vector<BlockRef>& wanted, std::string fault) {
  std::string own(static_cast<size_t>(ceil_div(blocks_.count(), 8)), '\0');
  if (fault.empty())
    for (const BlockRef& block : wanted) {
      const int64_t n = blocks_.of(block);
      own[static_cast<size_t>(n / 8)] = static_cast<char>(own[static_cast<size_t>(n / 8)] | (1 << (n % 8)));
    }
  own += xxh128_hex(own.data(), own.size());
  std::vector<std::string> said(ranks_.size(), own);
  std::vector<DeliveryPtr> deliveries;  // after what they read and write
  for (size_t p = 0; p < ranks_.size(); ++p) {
    if (p == me_) continue;
    deliveries.push_back(world_.node.send(ranks_[p], own.data(), std::ssize(own)));
    deliveries.push_back(world_.node.receive(ranks_[p], said[p].data(), std::ssize(said[p])));
  }
  // Receives first: a send may last until the other side has waited for it.
  for (size_t i = 1; i < deliveries.size(); i += 2) deliveries[i]->wait();
  for (size_t i = 0; i < deliveries.size(); i += 2) deliveries[i]->wait();
  for (size_t p = 0; p < ranks_.size(); ++p) {
    const size_t bits = said[p].size() - kDigestDigits;
    if (fault.empty() && xxh128_hex(said[p].data(), bits) != said[p].substr(bits))
      fault = fmt::format("which blocks rank {} needs came here with a wrong digest", ranks_[p]);
  }
  if (!world_.all_agree(fault.empty()))
    fail(ErrorKind::checkpoint, fault.empty() ? "another rank cannot say which blocks it needs" : fault);
  needs_.resize(ranks_.size());
  for (size_t p = 0; p < ranks_.size(); ++p)
    for (int64_t n = 0; n < blocks_.count(); ++n)
      needs_[p].push_back(((said[p][static_cast<size_t>(n / 8)] >> (n % 8)) & 1) != 0);
  std::vector<int64_t> bytes;
  for (int64_t n = 0; n < blocks_.count(); ++n) bytes.push_back(bytes_of(blocks_.at(n)));
  plan_ = plan_sharing(needs_, bytes);
}

std::vector<DeliveryPtr> NodeReading::hand_out(size_t step, const char* data) const {
  const int64_t block = plan_.shared[step].block;
  std::vector<DeliveryPtr> deliveries;
  for (size_t p = 0; p < ranks_.size(); ++p)
    if (p != me_ && needs_[p][static_cast<size_t>(block)])
      deliveries.push_back(world_.node.send(ranks_[p], data, bytes_of(blocks_.at(block))));
  return deliveries;
}

// Lets as many arrive as there are buffers.
void NodeReading::expect_more() {
  for (; arrivals_.size() < kReceives && next_step_ < plan_.shared.size(); ++next_step_) {
    const SharingPlan::Step& step = plan_.shared[next_step_];
    if (step.reader == me_ || !needs_[me_][static_cast<size_t>(step.block)]) continue;
    if (buffers_.size() < kReceives) buffers_.push_back(std::make_unique<IoBuffer>(kBlockBytes));
    const IoBuffer& buffer = *buffers_[expected_++ % kReceives];
    const int64_t bytes = bytes_of(blocks_.at(step.block));
    arrivals_.push_back({next_step_, &buffer, world_.node.receive(ranks_[step.reader], buffer.data(), bytes)});
    bytes_received_ += bytes;
  }
}

void NodeReading::take_first() {
  arrivals_.front().delivery->wait();
  const size_t step = arrivals_.front().step;
  const BlockRef block = block_at(step);
  const char* data = arrivals_.front().buffer->data();
  const std::string& expected = block.file->block_xxh128[static_cast<size_t>(block.index)];
  const std::string actual = xxh128_hex(data, static_cast<size_t>(bytes_of(block)));
  if (actual == expected)
    take_(block, data, bytes_of(block));
  else if (came_wrong_.empty())
    came_wrong_ = fmt::format(
        "{}: block {} came from rank {}, which reads it for this node, with the digest {}, {} expected: either that "
        "rank could not read it and says why, or it was spoilt on its way here",
        block.file->path, block.index, ranks_[plan_.shared[step].reader], actual, expected);
  arrivals_.pop_front();
  expect_more();
}

void NodeReading::take_before(size_t step) {
  while (!arrivals_.empty() && arrivals_.front().step < step) take_first();
}

void NodeReading::read() {
  std::vector<size_t> own_steps;
  std::vector<BlockRef> own;
  for (size_t step = 0; step < plan_.shared.size(); ++step)
    if (plan_.shared[step].reader == me_) {
      own_steps.push_back(step);
      own.push_back(block_at(step));
    }
  for (const int64_t block : plan_.alone[me_]) own.push_back(blocks_.at(block));
  size_t handed_out = 0;
  std::optional<Error> failure;
  expect_more();
  try {
    reader_.read(own, [&](const BlockRef& block, const char* data, int64_t bytes) {
      std::vector<DeliveryPtr> deliveries;
      if (handed_out < own_steps.size()) {
        const size_t step = own_steps[handed_out];
        take_before(far_before(step));
        deliveries = hand_out(step, data);
        ++handed_out;
      } else {
        while (!arrivals_.empty() && arrivals_.front().delivery->done()) take_first();
      }
      take_(block, data, bytes);
      return deliveries;
    });
  } catch (const Error& error) {
    if (is_of_the_exchange(error.kind())) throw;
    failure = error;
  }
  own_steps.erase(own_steps.begin(), own_steps.begin() + static_cast<std::ptrdiff_t>(handed_out));
  finish(own_steps);
  if (world_.all_agree(!failure && came_wrong_.empty())) return;
  if (failure) throw Error(*failure);
  fail(ErrorKind::rank_failed, came_wrong_.empty() ? "another rank could not read it" : came_wrong_);
}

// Ends the exchange, `unread` being the own steps that a failure left over.
void NodeReading::finish(const std::vector<size_t>& unread) {
  const std::unique_ptr<IoBuffer> nothing = unread.empty() ? nullptr : std::make_unique<IoBuffer>(kBlockBytes);
  std::vector<DeliveryPtr> deliveries;
  for (const size_t step : unread) {
    take_before(far_before(step));
    for (DeliveryPtr& delivery : hand_out(step, nothing->data())) deliveries.push_back(std::move(delivery));
  }
  take_before(plan_.shared.size());
  reader_.settle();
  for (const DeliveryPtr& delivery : deliveries) delivery->wait();
}

}  // namespace

SharingPlan plan_sharing(const std::vector<std::vector<bool>>& needs, const std::vector<int64_t>& bytes) {
  SharingPlan plan;
  plan.alone.resize(needs.size());
  std::vector<int64_t> load(needs.size(), 0);
  std::vector<std::vector<int64_t>> shared(needs.size());
  std::vector<int64_t> needed_by_several;
  for (size_t block = 0; block < bytes.size(); ++block) {
    size_t count = 0, last = 0;
    for (size_t p = 0; p < needs.size(); ++p)
      if (needs[p][block]) ++count, last = p;
    if (count > 1) needed_by_several.push_back(static_cast<int64_t>(block));
    if (count != 1) continue;
    plan.alone[last].push_back(static_cast<int64_t>(block));
    load[last] += bytes[block];
  }
  for (const int64_t block : needed_by_several) {
    size_t reader = needs.size();
    for (size_t p = 0; p < needs.size(); ++p)
      if (needs[p][static_cast<size_t>(block)] && (reader == needs.size() || load[p] < load[reader])) reader = p;
    load[reader] += bytes[static_cast<size_t>(block)];
    shared[reader].push_back(block);
  }
  // All readers side by side.
  for (size_t k = 0; plan.shared.size() < needed_by_several.size(); ++k)
    for (size_t p = 0; p < needs.size(); ++p)
      if (k < shared[p].size()) plan.shared.push_back({shared[p][k], p});
  return plan;
}

int64_t read_shared_blocks(const Agreement& ranks, const std::vector<FileRecord>& files, BlockReader& reader,
                           const std::vector<BlockRef>& wanted, const std::string& fault, const TakeBlock& take) {
  NodeReading reading(ranks, files, reader, take);
  reading.exchange_needs(wanted, fault);
  reading.read();
  return reading.bytes_received();
}

}  // namespace trainctl
