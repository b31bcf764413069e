// tests/unit/data/sampler_test.cpp -- what a sample holds: tokens, labels, positions, document borders; and refusals.
#include "data/sampler.h"

#include <set>

#include "base/error.h"
#include "data_test_support.h"
#include "support/catch.h"

using namespace trainctl;
using namespace trainctl::testing;
using Catch::Contains;

namespace {

constexpr int64_t kVocab = 100000;

// Which document each id of a counting corpus belongs to.
std::vector<int> owners(const std::vector<int64_t>& lengths) {
  std::vector<int> owner;
  for (size_t d = 0; d < lengths.size(); ++d)
    owner.insert(owner.end(), static_cast<size_t>(lengths[d]), static_cast<int>(d));
  return owner;
}

const std::vector<int64_t> kShortDocuments = {1, 2, 5, 0, 9, 15, 1, 1, 40, 3, 32, 33, 31, 7, 64, 2, 0, 6};

}  // namespace

TEST_CASE("labels, positions and document starts equal a naive count from the ids alone", "[data]") {
  const ScratchFolder folder;
  write_counting(folder / "c", kShortDocuments);
  const std::vector<int> owner = owners(kShortDocuments);
  constexpr int64_t S = 16;
  for (const bool mask : {false, true}) {
    for (const bool reset : {false, true}) {
      DataConfig config = config_of({(folder / "c").string()}, S);
      config.document_mask = mask;
      config.reset_positions = reset;
      const Sampler sampler(config, 5, kVocab);
      for (int64_t g = 0; g < 3 * sampler.samples_per_epoch(Split::train); ++g) {
        const Sample s = sampler.sample(Split::train, g);
        int32_t start = 0;
        for (size_t t = 0; t < S; ++t) {
          const auto id = static_cast<size_t>(s.tokens[t]);
          const bool first = id == 0 || owner[id - 1] != owner[id];
          if (t > 0 && first) start = static_cast<int32_t>(t);
          REQUIRE(s.document_start[t] == (mask ? start : 0));
          REQUIRE(s.positions[t] == static_cast<int32_t>(t) - (reset ? start : 0));
          const bool last = id + 1 == owner.size() || owner[id + 1] != owner[id];
          if (last && mask) REQUIRE(s.labels[t] == kNoLabel);
          if (!last) REQUIRE(s.labels[t] == s.tokens[t] + 1);
          if (t + 1 < S && !(last && mask)) REQUIRE(s.labels[t] == s.tokens[t + 1]);
          if (last && !mask) {  // the first token of some other document
            const auto label = static_cast<size_t>(s.labels[t]);
            REQUIRE((label == 0 || owner[label - 1] != owner[label]));
          }
        }
      }
    }
  }
}

TEST_CASE("masks and positions change nothing about which tokens are read", "[data]") {
  const ScratchFolder folder;
  write_counting(folder / "c", kShortDocuments);
  DataConfig config = config_of({(folder / "c").string()}, 16);
  const Sampler plain(config, 5, kVocab);
  config.document_mask = config.reset_positions = true;
  const Sampler masked(config, 5, kVocab);
  for (int64_t g = 0; g < 20; ++g) CHECK(plain.sample(Split::train, g).tokens == masked.sample(Split::train, g).tokens);
  CHECK(fingerprint_of(plain.order()) == fingerprint_of(masked.order()));
}

TEST_CASE("training and validation documents are disjoint, complete and chosen by the seed", "[data]") {
  const ScratchFolder folder;
  std::vector<int64_t> lengths(200, 11);
  write_counting(folder / "c", lengths);
  DataConfig config = config_of({(folder / "c").string()}, 10);
  config.validation_fraction = 0.1;
  std::set<int> validation_before;
  for (const int64_t seed : {1, 2, -3}) {
    const Sampler sampler(config, seed, kVocab);
    CHECK(sampler.documents(Split::validation) == 20);
    CHECK(sampler.documents(Split::train) == 180);
    CHECK(sampler.tokens(Split::validation) + sampler.tokens(Split::train) == 2200);
    std::set<int> seen[2];
    for (const Split split : {Split::train, Split::validation}) {
      // The tokens dropped at the end of an epoch differ by epoch: a few epochs show every document.
      for (int64_t g = 0; g < 4 * sampler.samples_per_epoch(split); ++g) {
        for (const int32_t id : sampler.sample(split, g).tokens) seen[split == Split::validation].insert(id / 11);
      }
    }
    CHECK(seen[0].size() == 180);
    CHECK(seen[1].size() == 20);
    for (const int d : seen[1]) CHECK(seen[0].count(d) == 0);
    CHECK(seen[1] != validation_before);
    validation_before = seen[1];
  }
}

TEST_CASE("the number of validation documents is the nearest, at least one, never all", "[data]") {
  CHECK(validation_documents(1000, 0.0) == 0);
  CHECK(validation_documents(1000, 0.01) == 10);
  CHECK(validation_documents(1000, 0.0001) == 1);
  CHECK(validation_documents(3, 0.99) == 2);
  CHECK(validation_documents(1, 0.5) == 0);
  CHECK(validation_documents(0, 0.5) == 0);
}

TEST_CASE("a source without one full sequence is refused with its numbers; an empty validation split says why",
          "[data]") {
  const ScratchFolder folder;
  write_counting(folder / "c", {20, 12});
  const Sampler short_one(config_of({(folder / "c").string()}, 32), 1, kVocab);
  CHECK_THROWS_WITH(short_one.sample(Split::train, 0), Contains("fewer than one sequence"));
  CHECK_THROWS_WITH(short_one.require(Split::train),
                    Contains("data.train[0]") && Contains("32 tokens") && Contains("32 + 1") && Contains("<= 31"));
  const Sampler exact(config_of({(folder / "c").string()}, 31), 1, kVocab);
  CHECK(exact.samples_per_epoch(Split::train) == 1);
  CHECK(exact.samples_per_epoch(Split::validation) == 0);
  CHECK_THAT(exact.why_empty(Split::validation), Contains("validation_fraction is 0"));
  CHECK(exact.why_empty(Split::train).empty());
  CHECK_THROWS_WITH(exact.sample(Split::validation, 0), Contains("validation split has no sample"));
  DataConfig config = config_of({(folder / "c").string()}, 10);
  write_counting(folder / "c", {20, 20, 20, 20, 2});
  config.validation_fraction = 0.2;
  config.sequence_tokens = 30;
  CHECK_THAT(Sampler(config, 1, kVocab).why_empty(Split::validation), Contains("holds back 1 documents"));
}

TEST_CASE("an id outside the vocabulary stops the run when it is read, with its place", "[data]") {
  const ScratchFolder folder;
  write_counting(folder / "c", {50, 50});
  const Sampler sampler(config_of({(folder / "c").string()}, 10), 1, 99);
  CHECK_THROWS_WITH(
      [&] {
        for (int64_t g = 0; g < 2 * sampler.samples_per_epoch(Split::train); ++g) sampler.sample(Split::train, g);
      }(),
      Contains("token id 99 in document 1 at offset 49"));
}

TEST_CASE("settings out of range are refused by key", "[data]") {
  const ScratchFolder folder;
  write_counting(folder / "c", {50});
  const std::string path = (folder / "c").string();
  CHECK_THROWS_WITH(Sampler(config_of({path}, 0), 1, kVocab), Contains("data.sequence_tokens is 0"));
  CHECK_THROWS_WITH(Sampler(config_of({}, 10), 1, kVocab), Contains("data.train is empty"));
  DataConfig config = config_of({path}, 10);
  config.validation_fraction = 1.0;
  CHECK_THROWS_WITH(Sampler(config, 1, kVocab), Contains("data.validation_fraction is 1"));
  config.validation_fraction = 0;
  config.train[0].weight = 0;
  CHECK_THROWS_WITH(Sampler(config, 1, kVocab), Contains("data.train[0].weight"));
}

TEST_CASE("the fingerprint follows every part of the data's definition and nothing else", "[data]") {
  const ScratchFolder folder;
  write_counting(folder / "a", {50, 60});
  write_counting(folder / "copy", {50, 60});
  write_counting(folder / "b", {60, 50});
  const auto of = [&](const std::string& first, double weight, int64_t S, int64_t seed, double fraction) {
    DataConfig config = config_of({(folder / first).string(), (folder / "b").string()}, S);
    config.train[0].weight = weight;
    config.validation_fraction = fraction;
    return fingerprint_of(Sampler(config, seed, kVocab).order());
  };
  const std::string base = of("a", 1, 10, 1, 0);
  CHECK(base.size() == 32);
  CHECK(base == of("copy", 1, 10, 1, 0));
  CHECK(base != of("b", 1, 10, 1, 0));
  CHECK(base != of("a", 2, 10, 1, 0));
  CHECK(base != of("a", 1, 11, 1, 0));
  CHECK(base != of("a", 1, 10, 2, 0));
  CHECK(base != of("a", 1, 10, 1, 0.5));
}
