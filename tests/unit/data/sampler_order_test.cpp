// tests/unit/data/sampler_order_test.cpp -- the order of samples: a pure function of (seed, global sample number).
#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <thread>

#include "data/sampler.h"
#include "data_test_support.h"
#include "support/catch.h"

using namespace trainctl;
using namespace trainctl::testing;

namespace {

constexpr int64_t kVocab = 100000;

std::vector<int64_t> lengths_of_1000_tokens() {
  std::vector<int64_t> lengths;
  for (int64_t left = 1000, n = 3; left > 0; n = n * 7 % 61 + 1) {
    lengths.push_back(std::min(n, left));
    left -= lengths.back();
  }
  return lengths;
}

// The inputs that data rank `rank` of `ranks` reads in one epoch, micro-batch by micro-batch.
std::vector<int32_t> tokens_of_rank(const Sampler& sampler, int64_t rank, int64_t ranks, int64_t micro) {
  const int64_t S = sampler.sequence_tokens(), total = sampler.samples_per_epoch(Split::train);
  std::vector<int32_t> tokens, batch(static_cast<size_t>(micro * S));
  for (int64_t first = rank * micro; first < total; first += ranks * micro) {
    const int64_t count = std::min(micro, total - first);
    sampler.fill(Split::train, first, count, {.tokens = batch.data()});
    tokens.insert(tokens.end(), batch.begin(), batch.begin() + count * S);
  }
  return tokens;
}

}  // namespace

TEST_CASE("an epoch reads each token once but for the stated remainder, for any number of data ranks", "[data]") {
  const ScratchFolder folder;
  write_counting(folder / "c", lengths_of_1000_tokens());
  for (const int64_t S : {1, 7, 32, 999}) {
    const Sampler sampler(config_of({(folder / "c").string()}, S), 3, kVocab);
    CHECK(sampler.tokens(Split::train) == 1000);
    CHECK(sampler.samples_per_epoch(Split::train) == 999 / S);
    CHECK(sampler.dropped_tokens_per_epoch(Split::train) == 1000 - 999 / S * S);
    std::vector<int32_t> of_one_rank;
    for (const int64_t ranks : {1, 2, 3, 8}) {
      INFO("sequence " << S << ", " << ranks << " ranks");
      std::vector<int32_t> all;
      for (int64_t r = 0; r < ranks; ++r) {
        const auto part = tokens_of_rank(sampler, r, ranks, 2);
        all.insert(all.end(), part.begin(), part.end());
      }
      std::sort(all.begin(), all.end());
      CHECK(std::adjacent_find(all.begin(), all.end()) == all.end());
      CHECK(static_cast<int64_t>(all.size()) == 999 / S * S);
      if (ranks == 1) of_one_rank = all;
      CHECK(all == of_one_rank);
    }
  }
}

TEST_CASE("stopping and resuming anywhere, in a new process or another order, gives the same samples", "[data]") {
  const ScratchFolder folder;
  write_counting(folder / "c", lengths_of_1000_tokens());
  write_counting(folder / "d", {100, 30, 55});
  DataConfig config = config_of({(folder / "c").string(), (folder / "d").string()}, 32);
  config.train[1].weight = 0.5;
  const int64_t batch = 3;
  std::vector<Sample> straight;
  {
    const Sampler sampler(config, 11, kVocab);
    for (int64_t g = 0; g < 40 * batch; ++g) straight.push_back(sampler.sample(Split::train, g));
  }
  const int64_t stops[] = {0, 7, 11, 12, 12, 33, 40};
  for (size_t i = 0; i + 1 < std::size(stops); ++i) {
    const Sampler resumed(config, 11, kVocab);
    for (int64_t g = stops[i] * batch; g < stops[i + 1] * batch; ++g) {
      const Sample s = resumed.sample(Split::train, g);
      CHECK(s.id == straight[static_cast<size_t>(g)].id);
      CHECK(s.tokens == straight[static_cast<size_t>(g)].tokens);
    }
  }
  const Sampler backwards(config, 11, kVocab);
  for (int64_t g = 40 * batch - 1; g >= 0; --g)
    CHECK(backwards.id(Split::train, g) == straight[static_cast<size_t>(g)].id);
  CHECK(Sampler(config, 12, kVocab).sample(Split::train, 0).tokens != straight[0].tokens);
}

TEST_CASE("epochs follow each other without a gap, each in another order and with other documents joined", "[data]") {
  const ScratchFolder folder;
  write_counting(folder / "c", lengths_of_1000_tokens());
  const Sampler sampler(config_of({(folder / "c").string()}, 32), 3, kVocab);
  const int64_t n = sampler.samples_per_epoch(Split::train);
  std::vector<std::vector<int64_t>> indices(4);
  std::set<std::vector<int32_t>> first_rows;
  for (int64_t g = 0; g < 4 * n; ++g) {
    const SampleId id = sampler.id(Split::train, g);
    CHECK(id.source == 0);
    REQUIRE(id.epoch == g / n);
    indices[static_cast<size_t>(id.epoch)].push_back(id.index);
    if (id.index == 0) first_rows.insert(sampler.sample(Split::train, g).tokens);
  }
  CHECK(first_rows.size() == 4);
  for (size_t e = 1; e < 4; ++e) CHECK(indices[e] != indices[0]);
  for (auto& epoch : indices) {
    std::sort(epoch.begin(), epoch.end());
    for (int64_t i = 0; i < n; ++i) CHECK(epoch[static_cast<size_t>(i)] == i);
  }
}

TEST_CASE("rows of an epoch join into whole documents in one order", "[data]") {
  // Sorted by index, the rows of an epoch are one stream: documents appear whole, once each, but for the end.
  const ScratchFolder folder;
  const std::vector<int64_t> lengths = lengths_of_1000_tokens();
  write_counting(folder / "c", lengths);
  const Sampler sampler(config_of({(folder / "c").string()}, 32), 3, kVocab);
  std::map<int64_t, std::vector<int32_t>> rows;
  for (int64_t g = 0; g < sampler.samples_per_epoch(Split::train); ++g) {
    const Sample s = sampler.sample(Split::train, g);
    rows[s.id.index] = s.tokens;
    rows[s.id.index].push_back(s.labels.back());
  }
  std::vector<int32_t> stream;
  for (const auto& [index, row] : rows) {
    if (!stream.empty()) {
      REQUIRE(stream.back() == row.front());  // the last label of a row is the first token of the next
      stream.pop_back();
    }
    stream.insert(stream.end(), row.begin(), row.end());
  }
  std::map<int64_t, int64_t> length_at;  // first id of each document -> its length
  int64_t begin = 0;
  for (const int64_t length : lengths) {
    length_at[begin] = length;
    begin += length;
  }
  std::set<int32_t> begun;
  for (size_t i = 0; i < stream.size();) {
    REQUIRE(length_at.count(stream[i]) == 1);
    REQUIRE(begun.insert(stream[i]).second);
    const auto length = static_cast<size_t>(length_at[stream[i]]);
    for (size_t o = 0; o < length && i + o < stream.size(); ++o)
      REQUIRE(stream[i + o] == stream[i] + static_cast<int32_t>(o));
    i += length;
  }
}

TEST_CASE("a blend draws sources in proportion, each going through its own epochs", "[data]") {
  const ScratchFolder folder;
  write_counting(folder / "big", lengths_of_1000_tokens());
  write_counting(folder / "small", {65, 65});
  DataConfig config = config_of({(folder / "big").string(), (folder / "small").string()}, 32);
  config.train[0].weight = 0.7;
  config.train[1].weight = 0.3;
  const Sampler sampler(config, 3, kVocab);
  CHECK(sampler.samples_per_epoch(Split::train, 0) == 31);
  CHECK(sampler.samples_per_epoch(Split::train, 1) == 4);
  int64_t seen[2] = {0, 0};
  for (int64_t g = 0; g < 200; ++g) {
    const SampleId id = sampler.id(Split::train, g);
    CHECK(id.epoch == seen[id.source] / (id.source == 0 ? 31 : 4));
    ++seen[id.source];
    CHECK(std::abs(static_cast<double>(seen[1]) - 0.3 * static_cast<double>(g + 1)) < 1);
  }
  CHECK(given_before(sampler.order(), 200) == std::vector<int64_t>{140, 60});
}

TEST_CASE("reading validation samples changes nothing about training", "[data]") {
  const ScratchFolder folder;
  write_counting(folder / "c", lengths_of_1000_tokens());
  DataConfig config = config_of({(folder / "c").string()}, 16);
  config.validation_fraction = 0.3;
  const Sampler with(config, 3, kVocab), without(config, 3, kVocab);
  for (int64_t g = 0; g < 100; ++g) {
    with.sample(Split::validation, g * 5);
    CHECK(with.sample(Split::train, g).tokens == without.sample(Split::train, g).tokens);
  }
}

TEST_CASE("threads may fill at once and all get the same samples", "[data]") {
  const ScratchFolder folder;
  write_counting(folder / "c", lengths_of_1000_tokens());
  const Sampler sampler(config_of({(folder / "c").string()}, 32), 3, kVocab);
  std::vector<std::vector<int32_t>> got(4, std::vector<int32_t>(100 * 32));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < got.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int64_t g = 0; g < 100; ++g) sampler.fill(Split::train, g, 1, {.tokens = got[i].data() + g * 32});
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& tokens : got) CHECK(tokens == got[0]);
}

TEST_CASE("sample numbers beyond 2^32 are served like any other", "[data]") {
  const ScratchFolder folder;
  write_counting(folder / "c", lengths_of_1000_tokens());
  const Sampler sampler(config_of({(folder / "c").string()}, 32), 3, kVocab);
  const int64_t far = (int64_t{1} << 40) + 5;
  CHECK(sampler.id(Split::train, far).epoch == far / 31);
  CHECK(sampler.sample(Split::train, far).tokens.size() == 32);
}

TEST_CASE("the order is pinned: a change would break runs that resume", "[data]") {
  const ScratchFolder folder;
  write_counting(folder / "c", lengths_of_1000_tokens());
  const Sampler sampler(config_of({(folder / "c").string()}, 100), 1234, kVocab);
  std::vector<int32_t> first;
  for (int64_t g = 0; g < 9; ++g) first.push_back(sampler.sample(Split::train, g).tokens[0]);
  CHECK(first == std::vector<int32_t>{719, 302, 604, 531, 58, 817, 402, 241, 126});
}
