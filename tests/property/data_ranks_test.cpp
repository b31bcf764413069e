// tests/property/data_ranks_test.cpp -- the rows that data ranks get, through the runtime's own batches: over changes
// of the layout, the micro-batch and the batch, no token of the packed order is repeated or skipped.
#include <algorithm>
#include <random>

#include "../unit/data/data_test_support.h"
#include "base/error.h"
#include "data/sampler.h"
#include "device/device.h"
#include "runtime/batches.h"
#include "support/catch.h"
#include "trainer/sampler_source.h"

namespace trainctl::testing {
namespace {

constexpr int64_t kVocab = int64_t{1} << 24;

// One data rank as the runtime sees it: its batches in device memory.
class DataRank {
 public:
  DataRank(const BatchShape& shape, BatchSource& source)
      : device_(make_cpu_device()),
        arena_(*device_),
        stream_(device_->make_compute_stream()),
        context_(arena_, {}, *stream_),
        shape_(shape),
        batches_(context_, shape),
        source_(source) {}

  // Appends the tokens that this rank gets of the global batch from sample `first` on.
  void take(int64_t first, std::vector<int32_t>& tokens) {
    batches_.load(&source_, SampleSplit::train, first);
    for (int m = 0; m < static_cast<int>(shape_.micro_batches); ++m) {
      const Tensor& rows = batches_.micro_batch(m).tokens;
      const auto* data = static_cast<const int32_t*>(rows.data());
      tokens.insert(tokens.end(), data, data + rows.numel());
    }
  }

 private:
  std::unique_ptr<Device> device_;
  Arena arena_;
  std::unique_ptr<Stream> stream_;
  Context context_;
  BatchShape shape_;
  Batches batches_;
  BatchSource& source_;
};

// A part of a run: its layout and batch; the program is started anew for each.
struct Part {
  int64_t data_parallel, micro_batch_size, global_batch, steps;
};

// Every token that the ranks of the parts get from sample `cursor` on, step by step; moves the cursor.
std::vector<int32_t> consume(const DataConfig& config, const std::vector<Part>& parts, int64_t& cursor) {
  std::vector<int32_t> all;
  for (const Part& part : parts) {
    const Sampler sampler(config, 17, kVocab);
    SamplerSource source(sampler);
    std::vector<std::unique_ptr<DataRank>> ranks;
    for (int64_t d = 0; d < part.data_parallel; ++d)
      ranks.push_back(std::make_unique<DataRank>(
          BatchShape{.micro_batches = part.global_batch / part.micro_batch_size / part.data_parallel,
                     .micro_batch_size = part.micro_batch_size,
                     .sequence = config.sequence_tokens,
                     .data_parallel = part.data_parallel,
                     .data_rank = d,
                     .document_mask = config.document_mask},
          source));
    for (int64_t step = 0; step < part.steps; ++step, cursor += part.global_batch)
      for (const auto& rank : ranks) rank->take(cursor, all);
  }
  return all;
}

}  // namespace

TEST_CASE("4, 2 and 8 data ranks with other micro-batches get every token of a packed epoch of a million once",
          "[property][data]") {
  const ScratchFolder folder;
  std::mt19937 random(5);
  std::vector<int64_t> lengths;
  int64_t tokens = 0;
  while (tokens < 1200000) {  // from empty to several rows long
    lengths.push_back(static_cast<int64_t>(random() % 8 == 0 ? random() % 4000 : random() % 300));
    tokens += lengths.back();
  }
  constexpr int64_t S = 256, kBatch = 32;
  // An epoch is a whole number of batches, with 100 tokens dropped: then its end is also the end of a step.
  const int64_t wanted = tokens / (S * kBatch) * (S * kBatch) + 100;
  while (tokens > wanted) {
    const int64_t cut = std::min(tokens - wanted, lengths.back());
    lengths.back() -= cut;
    tokens -= cut;
    if (lengths.back() == 0) lengths.pop_back();
  }
  write_counting(folder / "c", lengths);
  DataConfig config = config_of({(folder / "c").string()}, S);
  config.document_mask = true;

  const int64_t per_epoch = Sampler(config, 17, kVocab).samples_per_epoch(Split::train), steps = per_epoch / kBatch;
  REQUIRE(per_epoch % kBatch == 0);
  REQUIRE(per_epoch * S > 1000000);
  const int64_t third = steps / 3;
  const std::vector<std::vector<Part>> epochs = {
      {{4, 2, kBatch, third}, {2, 16, kBatch, third}, {8, 1, kBatch, steps - 2 * third}},
      // Now with the batch changed as well, and again in the middle.
      {{8, 4, kBatch, 5}, {2, 8, 2 * kBatch, 3}, {4, 1, kBatch / 2, 10}, {1, 2, kBatch, steps - 16}}};
  int64_t cursor = 0;
  std::vector<int32_t> before;
  for (const std::vector<Part>& parts : epochs) {
    const int64_t begin = cursor;
    std::vector<int32_t> got = consume(config, parts, cursor);
    REQUIRE(cursor - begin == per_epoch);
    std::vector<int32_t> straight = [&] {
      int64_t again = begin;
      return consume(config, {{1, 1, kBatch, steps}}, again);
    }();
    CHECK(got.size() == straight.size());
    CHECK(straight != before);  // another epoch, another order
    before = straight;
    // A corpus whose token at place i is i: each place once, but for the 100 at the end of the epoch's order.
    std::sort(got.begin(), got.end());
    CHECK(std::adjacent_find(got.begin(), got.end()) == got.end());
    CHECK(static_cast<int64_t>(got.size()) == wanted - 100);
    CHECK(got.front() >= 0);
    CHECK(got.back() < wanted);
    std::sort(straight.begin(), straight.end());
    CHECK(got == straight);
  }
}

TEST_CASE("each step's rows are those of its samples, whichever rank and micro-batch gets them", "[property][data]") {
  const ScratchFolder folder;
  write_counting(folder / "c", std::vector<int64_t>(300, 37));
  const DataConfig config = config_of({(folder / "c").string()}, 16);
  const Sampler sampler(config, 17, kVocab);
  for (const Part& part :
       std::vector<Part>{{1, 1, 24, 1}, {4, 2, 24, 1}, {2, 3, 24, 1}, {8, 1, 24, 1}, {3, 8, 24, 1}}) {
    for (const int64_t first : {int64_t{0}, int64_t{7}, int64_t{690}}) {
      INFO(part.data_parallel << " ranks, micro-batch " << part.micro_batch_size << ", from " << first);
      int64_t cursor = first;
      const std::vector<int32_t> got = consume(config, {part}, cursor);
      // Rank by rank, micro-batch by micro-batch: sample (m ranks + d) size + j.
      size_t at = 0;
      for (int64_t d = 0; d < part.data_parallel; ++d)
        for (int64_t m = 0; m < part.global_batch / part.micro_batch_size / part.data_parallel; ++m)
          for (int64_t j = 0; j < part.micro_batch_size; ++j) {
            const Sample s =
                sampler.sample(Split::train, first + (m * part.data_parallel + d) * part.micro_batch_size + j);
            REQUIRE(std::equal(s.tokens.begin(), s.tokens.end(), got.begin() + static_cast<std::ptrdiff_t>(at)));
            at += s.tokens.size();
          }
      CHECK(at == got.size());
    }
  }
}

}  // namespace trainctl::testing
