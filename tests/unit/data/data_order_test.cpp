// tests/unit/data/data_order_test.cpp -- data that change on the way: each source goes on where it was, over any number
// of changes, through what a checkpoint keeps.
#include "data/data_order.h"

#include <cmath>
#include <map>
#include <random>
#include <set>

#include "base/config_io.h"
#include "base/hash.h"
#include "data/sampler.h"
#include "data_test_support.h"
#include "support/catch.h"

using namespace trainctl;
using namespace trainctl::testing;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

constexpr int64_t kVocab = 100000;

// Through text, as a checkpoint keeps it.
DataOrder kept(const DataOrder& order) {
  const std::string text = write_config(order).dump();
  DataOrder read;
  ConfigSource source;
  std::vector<Fault> faults;
  read_config(parse_json(text, "order"), read, source, faults);
  REQUIRE(format_faults("order", faults).empty());
  REQUIRE(order_fault(read).empty());
  REQUIRE(fingerprint_of(read) == fingerprint_of(order));
  return read;
}

// Seven token files; the last is a copy of the first under another name.
class Pool {
 public:
  Pool() {
    std::mt19937 random(7);
    for (size_t i = 0; i < 6; ++i) {
      std::vector<int64_t> lengths;
      for (size_t n = 0; n < 15 + 9 * i; ++n) lengths.push_back(static_cast<int64_t>(random() % 40));
      write_counting(folder_ / name(i), lengths);
      if (i == 0) write_counting(folder_ / name(6), lengths);
    }
  }
  static constexpr size_t kFiles = 7;
  std::string path(size_t i) const { return (folder_ / name(i)).string(); }

 private:
  static std::string name(size_t i) { return "c" + std::to_string(i); }
  ScratchFolder folder_;
};

// What each source must give, kept apart from the sampler: ordinals 0, 1, 2, ... of its own stream.
class Expected {
 public:
  Expected(int64_t seed, double fraction, int64_t sequence) : seed_(seed), fraction_(fraction), sequence_(sequence) {}

  void check(const Sampler& sampler, const SampleId& id) {
    const OrderSource& source = sampler.order().sources[static_cast<size_t>(id.source)];
    auto found = given_.find(source.number);
    if (found == given_.end()) found = given_.emplace(source.number, Stream{source.digest, 0}).first;
    REQUIRE(found->second.digest == source.digest);
    DocumentStream stream(sampler.file(id.source), {.split = Split::train,
                                                    .validation_fraction = fraction_,
                                                    .seed = seed_,
                                                    .source = source.number,
                                                    .sequence_tokens = sequence_});
    const int64_t ordinal = found->second.given++, per_epoch = stream.sequences_per_epoch();
    REQUIRE(id.epoch == ordinal / per_epoch);
    REQUIRE(id.index == stream.shuffled(id.epoch, ordinal % per_epoch));
  }
  int64_t given(int64_t number) const {
    const auto found = given_.find(number);
    return found == given_.end() ? 0 : found->second.given;
  }

 private:
  struct Stream {
    std::string digest;
    int64_t given = 0;
  };
  int64_t seed_;
  double fraction_;
  int64_t sequence_;
  std::map<int64_t, Stream> given_;
};

std::vector<SampleId> ids(const Sampler& sampler, int64_t first, int64_t count) {
  std::vector<SampleId> out(static_cast<size_t>(count));
  sampler.fill(Split::train, first, count, {.ids = out.data()});
  return out;
}

std::string all_of(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

}  // namespace

TEST_CASE("over random changes of the data at random places every source gives its samples in order, none twice",
          "[data][order]") {
  const Pool pool;
  const double weights[] = {1, 0.5, 3, 0.7};
  for (uint32_t trial = 0; trial < 60; ++trial) {
    std::mt19937 random(trial);
    const auto below = [&random](size_t n) { return static_cast<size_t>(random() % n); };
    const int64_t seed = static_cast<int64_t>(random()) - (int64_t{1} << 31), S = below(2) ? 8 : 20;
    const double fraction = below(2) ? 0.2 : 0.0;
    Expected expected(seed, fraction, S);
    DataOrder then;
    int64_t cursor = 0;
    std::map<std::string, std::set<int64_t>> numbers;  // of each content, over the run
    std::map<std::string, size_t> at_once;             // most sources of a content in one list
    for (int change = 0; change < 6; ++change) {
      INFO("trial " << trial << ", change " << change << ", sample " << cursor);
      DataConfig config = config_of({}, S);
      config.validation_fraction = fraction;
      double sum = 0;
      for (size_t i = below(Pool::kFiles), left = 1 + below(5); left > 0; --left, i += 1 + below(3)) {
        config.train.push_back({pool.path(i % Pool::kFiles), weights[below(4)]});
        sum += config.train.back().weight;
      }
      Sampler sampler(config, seed, kVocab);
      if (change > 0) {
        REQUIRE(data_changes(then, sampler.order()).inexact.empty());
        sampler.follow(continued(kept(then), sampler.order(), cursor));
      }
      std::map<std::string, size_t> here;
      for (const OrderSource& source : sampler.order().sources) {
        REQUIRE(source.given == expected.given(source.number));
        numbers[source.digest].insert(source.number);
        at_once[source.digest] = std::max(at_once[source.digest], ++here[source.digest]);
      }
      for (const auto& [digest, used] : numbers) REQUIRE(used.size() == at_once[digest]);

      const auto count = static_cast<int64_t>(below(4) == 0 ? below(3) : below(150));
      std::vector<int64_t> drawn(config.train.size(), 0);
      for (const SampleId& id : ids(sampler, cursor, count)) {
        expected.check(sampler, id);
        ++drawn[static_cast<size_t>(id.source)];
      }
      for (size_t k = 0; k < drawn.size(); ++k)
        CHECK(std::abs(static_cast<double>(drawn[k]) - static_cast<double>(count) * config.train[k].weight / sum) < 1);
      cursor += count;
      then = sampler.order();
      const std::vector<int64_t> given = given_before(then, cursor);
      for (size_t k = 0; k < given.size(); ++k) CHECK(given[k] == expected.given(then.sources[k].number));
    }
  }
}

TEST_CASE("after a restart the samples are those of a new run, from its first", "[data][order]") {
  const Pool pool;
  DataConfig config = config_of({pool.path(1), pool.path(2)}, 8);
  Sampler before(config, 3, kVocab);
  const DataConfig other = config_of({pool.path(4), pool.path(1), pool.path(1)}, 11);
  Sampler after(other, 4, kVocab);
  const Sampler fresh(other, 4, kVocab);
  after.follow(kept(restarted(after.order(), 37)));
  CHECK(ids(after, 37, 400) == ids(fresh, 0, 400));
  CHECK_THROWS_WITH(after.id(Split::train, 36), Contains("before the first"));
  // Nothing is left of what the sources gave before.
  Sampler last(config, 4, kVocab);
  CHECK(continued(restarted(fresh.order(), 37), Sampler(config_of({pool.path(2)}, 11), 4, kVocab).order(), 37)
            .sources[0]
            .given == 0);
  CHECK(fingerprint_of(restarted(fresh.order(), 0)) == fingerprint_of(fresh.order()));
}

TEST_CASE("data that are the same under other paths are no change; every change is named with both values",
          "[data][order]") {
  const Pool pool;
  DataConfig config = config_of({pool.path(0), pool.path(1), pool.path(2)}, 8);
  config.validation_fraction = 0.25;
  const DataOrder then = Sampler(config, 5, kVocab).order();
  const auto changes = [&](const DataConfig& now, int64_t seed = 5) {
    return data_changes(then, Sampler(now, seed, kVocab).order());
  };
  DataConfig now = config;
  now.train[0].path = pool.path(6);  // the copy
  now.document_mask = now.log_samples = true;
  now.on_change = "continue";
  CHECK(changes(now).lines.empty());

  now = config;
  now.train[1].weight = 2.5;
  CHECK(changes(now).lines == std::vector<std::string>{"data.train[1].weight (\"" + pool.path(1) + "\"): 1 -> 2.5"});
  CHECK(changes(now).inexact.empty());

  now = config;
  now.train.erase(now.train.begin());
  const DataChanges gone = changes(now);
  REQUIRE(gone.lines.size() == 1);
  CHECK_THAT(gone.lines[0], Contains(pool.path(0)) && Contains("15 documents") && Contains("is gone") &&
                                Contains("it was data.train[0]"));

  now = config;
  now.train.insert(now.train.begin(), {pool.path(5), 1});
  const DataChanges added = changes(now);
  REQUIRE(added.lines.size() == 1);
  CHECK_THAT(added.lines[0], Contains("data.train[0] (\"" + pool.path(5)) && Contains("is new"));

  now = config;
  std::swap(now.train[0], now.train[2]);
  CHECK_THAT(all_of(changes(now).lines), Contains("data.train[0] (\"" + pool.path(2) + "\") was data.train[2]") &&
                                             Contains("data.train[2] (\"" + pool.path(0) + "\") was data.train[0]"));

  now = config;
  now.sequence_tokens = 9;
  now.validation_fraction = 0.5;
  const DataChanges inexact = changes(now, 6);
  CHECK(inexact.lines == std::vector<std::string>{"runtime.seed: 5 -> 6", "data.sequence_tokens: 8 -> 9",
                                                  "data.validation_fraction: 0.25 -> 0.5"});
  CHECK(inexact.inexact == inexact.lines);

  Sampler without(config_of({pool.path(2)}, 8), 5, kVocab);
  DataOrder base = then;
  base.validation_fraction = 0;
  const DataOrder later = continued(base, without.order(), 30);
  const DataChanges back = data_changes(later, Sampler(config_of({pool.path(2), pool.path(0)}, 8), 5, kVocab).order());
  REQUIRE(back.lines.size() == 1);
  CHECK_THAT(back.lines[0], Contains("is back, after 10 samples"));
}

TEST_CASE("weights are a change only where they change which source a sample comes from", "[data][order]") {
  const Pool pool;
  const auto order_of = [&pool](const std::vector<double>& weights) {
    DataConfig config = config_of({}, 8);
    for (size_t i = 0; i < weights.size(); ++i) config.train.push_back({pool.path(i), weights[i]});
    return Sampler(config, 5, kVocab).order();
  };
  const auto lines = [&](const std::vector<double>& then, const std::vector<double>& now) {
    return data_changes(order_of(then), order_of(now)).lines;
  };
  CHECK(lines({1}, {0.2}).empty());
  CHECK(lines({1, 0.5, 0.25}, {4, 2, 1}).empty());
  CHECK(lines({1, 1}, {1, 1.5}) ==
        std::vector<std::string>{"data.train[1].weight (\"" + pool.path(1) + "\"): 1 -> 1.5"});
  CHECK(lines({1, 1}, {2, 3}).size() == 2);
  // Beside another change, too: those that stay keep their proportions.
  CHECK(lines({1, 0.5}, {2, 1, 1}).size() == 1);
  CHECK(lines({1, 0.5}, {3}).size() == 1);
  // The same samples come from a sampler with the other weights.
  DataConfig config = config_of({pool.path(0), pool.path(1)}, 8);
  config.train[1].weight = 0.5;
  const Sampler before(config, 5, kVocab);
  config.train[0].weight = 6;
  config.train[1].weight = 3;
  Sampler after(config, 5, kVocab);
  after.follow(same_data(kept(before.order()), after.order()));
  CHECK(ids(after, 0, 300) == ids(before, 0, 300));
  CHECK(after.order().sources[1].weight == 3);
}

TEST_CASE("a file that grew or was edited is told once, with sizes and digests before and after, wherever it stands",
          "[data][order]") {
  const Pool pool;
  const auto now_of = [](const std::vector<std::string>& paths) {
    return Sampler(config_of(paths, 8), 5, kVocab).order();
  };
  const std::string a = pool.path(1), b = pool.path(2), c = pool.path(3);
  const std::vector<int64_t> lengths(24, 20);
  write_counting(a, lengths);
  const DataOrder then = now_of({a, b});
  write_counting(a, {30, 40, 50});
  const std::string digest = now_of({a}).sources[0].digest;
  const auto told = [&](const std::vector<std::string>& lines, const std::string& place, const std::string& path) {
    CHECK(std::count_if(lines.begin(), lines.end(),
                        [](const std::string& line) { return line.find("other content") != std::string::npos; }) == 1);
    CHECK_THAT(all_of(lines), Contains(place + " (\"" + path + "\") has other content") && Contains("24 documents") &&
                                  Contains("3 documents, 120 tokens") && Contains(then.sources[0].digest) &&
                                  Contains(digest) && Contains("new source") && !Contains("is gone"));
  };
  const auto changes = [&](const std::vector<std::string>& paths) { return data_changes(then, now_of(paths)).lines; };
  CHECK(changes({a, b}).size() == 1);
  told(changes({a, b}), "data.train[0]", a);
  for (const std::string& spelled : {a + ".bin", a + ".idx", fs::relative(a).string(),
                                     (fs::path(a).parent_path() / "." / fs::path(a).filename()).string()}) {
    INFO(spelled);
    CHECK(changes({spelled, b}).size() == 1);
    told(changes({spelled, b}), "data.train[0]", spelled);
  }
  CHECK(changes({c, a, b}).size() == 2);  // the other is new
  told(changes({c, a, b}), "data.train[1]", a);
  CHECK(changes({a}).size() == 2);  // the other is gone, and told so
  CHECK_THAT(all_of(changes({b, a})), Contains("data.train[0] (\"" + b + "\") was data.train[1]"));
  told(changes({b, a}), "data.train[1]", a);
  // And when it is as it was before.
  const DataOrder later = continued(then, now_of({a, b}), 30);
  write_counting(a, lengths);
  const std::vector<std::string> again = data_changes(later, now_of({a, b})).lines;
  REQUIRE(again.size() == 1);
  CHECK_THAT(again[0], Contains("3 documents, 120 tokens") && Contains("-> 24 documents") &&
                           Contains("that content is back, after 15 samples"));
  // One that is named twice is edited twice.
  const DataOrder twice = now_of({b, b});
  std::string bytes = read_bytes(b + ".bin");
  bytes[0] = static_cast<char>(bytes[0] ^ 1);
  write_bytes(b + ".bin", bytes);
  const std::vector<std::string> edited = data_changes(twice, now_of({b, b})).lines;
  REQUIRE(edited.size() == 2);
  for (const std::string& line : edited)
    CHECK_THAT(line, Contains("has other content of the same size") && Contains("33 documents") && Contains(" -> "));
}

TEST_CASE("a source keeps its validation documents when the list around it changes", "[data][order]") {
  const Pool pool;
  DataConfig config = config_of({pool.path(3), pool.path(4)}, 8);
  config.validation_fraction = 0.3;
  const auto validation_tokens = [](const Sampler& sampler, int64_t source) {
    std::set<int32_t> tokens;
    for (int64_t g = 0; g < 8 * sampler.samples_per_epoch(Split::validation); ++g)
      if (const Sample s = sampler.sample(Split::validation, g); s.id.source == source)
        tokens.insert(s.tokens.begin(), s.tokens.end());
    return tokens;
  };
  const Sampler before(config, 5, kVocab);
  const std::set<int32_t> held = validation_tokens(before, 1);
  REQUIRE(held.size() > 100);
  config.train = {{pool.path(4), 1}, {pool.path(5), 1}, {pool.path(3), 1}};
  Sampler after(config, 5, kVocab);
  after.follow(continued(before.order(), after.order(), 20));
  CHECK(validation_tokens(after, 0) == held);
  for (int64_t g = 20; g < 320; ++g) {
    const Sample s = after.sample(Split::train, g);
    for (const int32_t token : s.tokens) REQUIRE((s.id.source != 0 || held.count(token) == 0));
  }
}

TEST_CASE("an order that was read is refused when it cannot be one", "[data][order]") {
  const Pool pool;
  const DataOrder good = Sampler(config_of({pool.path(1), pool.path(2)}, 8), 5, kVocab).order();
  CHECK(order_fault(good).empty());
  DataOrder bad = good;
  bad.sources.clear();
  CHECK_THAT(order_fault(bad), Contains("no source"));
  bad = good;
  bad.sources[1].number = 0;
  CHECK_THAT(order_fault(bad), Contains("the number 0"));
  bad = good;
  bad.gone.push_back(good.sources[0]);
  CHECK_THAT(order_fault(bad), Contains("the number 0"));
  bad = good;
  bad.sources[0].given = int64_t{1} << 62;
  CHECK_THAT(order_fault(bad), Contains("out of range"));
  bad = good;
  bad.first_sample = INT64_MAX;
  CHECK_THAT(order_fault(bad), Contains("out of range"));
}

TEST_CASE("the fingerprint of a new run is that of its definition; another standing of the sources has another",
          "[data][order]") {
  const Pool pool;
  const Sampler sampler(config_of({pool.path(1), pool.path(2)}, 8), 5, kVocab);
  const std::string definition = definition_of(sampler.order()), plain = fingerprint_of(sampler.order());
  CHECK(plain == xxh128_hex(definition.data(), definition.size()));
  std::set<std::string> seen = {plain};
  DataOrder order = sampler.order();
  order.first_sample = 8;
  CHECK(seen.insert(fingerprint_of(order)).second);
  order.sources[0].given = 4;
  CHECK(seen.insert(fingerprint_of(order)).second);
  order.sources[1].number = 7;
  CHECK(seen.insert(fingerprint_of(order)).second);
  order.gone.push_back({.path = "x", .digest = "00", .number = 9, .given = 1});
  CHECK(seen.insert(fingerprint_of(order)).second);
  order.gone[0].path = order.sources[0].path = "elsewhere";
  CHECK_FALSE(seen.insert(fingerprint_of(order)).second);
}
