// lib/data/data_order.cpp -- see the header.
#include "data/data_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "base/hash.h"
#include "base/json_node.h"
#include "base/units.h"
#include "data/blend.h"

namespace trainctl {
namespace {

constexpr int64_t kMost = int64_t{1} << 60;  // of any count: sums of a few stay in 64 bits

// Of each source of `now` its place in then.sources followed by then.gone; -1: it is new.
std::vector<int64_t> known_as(const DataOrder& then, const DataOrder& now) {
  std::map<std::string, std::vector<int64_t>> places;  // by content, in the order in which they are taken
  int64_t place = 0;
  for (const auto* list : {&then.sources, &then.gone})
    for (const OrderSource& source : *list) places[source.digest].push_back(place++);
  std::map<std::string, size_t> taken;
  std::vector<int64_t> known;
  for (const OrderSource& source : now.sources) {
    const auto found = places.find(source.digest);
    const size_t n = taken[source.digest]++;
    known.push_back(found != places.end() && n < found->second.size() ? found->second[n] : -1);
  }
  return known;
}

std::string label(size_t index, const OrderSource& source) {
  return fmt::format("data.train[{}] ({})", index, in_quotes(source.path));
}

std::string size_of_source(const OrderSource& source) {
  return fmt::format("{}, {}", counted(source.documents, "document"), counted(source.tokens, "token"));
}

bool is_new(const DataOrder& order) {
  bool first = order.first_sample == 0 && order.gone.empty();
  for (size_t k = 0; k < order.sources.size(); ++k)
    first = first && order.sources[k].number == static_cast<int64_t>(k) && order.sources[k].given == 0;
  return first;
}

}  // namespace

void OrderSource::describe(ConfigVisitor& v) {
  v.field("path", path, "as the recipe named it", Rule{}.required());
  v.field("digest", digest, "of its content", Rule{}.required());
  v.field("documents", documents, "in the file", at_least(0).required());
  v.field("tokens", tokens, "in the file", at_least(0).required());
  v.field("weight", weight, "in the blend", above(0).required());
  v.field("number", number, "keys its document orders", at_least(0).required());
  v.field("given", given, "samples before this order began", at_least(0).required());
}

void DataOrder::describe(ConfigVisitor& v) {
  v.field("seed", seed, "runtime.seed", Rule{}.required());
  v.field("sequence_tokens", sequence_tokens, "data.sequence_tokens", at_least(1).required());
  v.field("validation_fraction", validation_fraction, "data.validation_fraction", from_to_below(0, 1).required());
  v.field("first_sample", first_sample, "global sample at which this order begins", at_least(0).required());
  v.field("sources", sources, "data.train", Rule{}.required());
  v.field("gone", gone, "sources that were in data.train before", Rule{}.required());
}

std::string order_fault(const DataOrder& order) {
  if (order.sources.empty()) return "it has no source";
  if (order.first_sample > kMost) return fmt::format("first_sample {} is out of range", order.first_sample);
  std::set<int64_t> numbers;
  for (const auto* list : {&order.sources, &order.gone})
    for (const OrderSource& source : *list) {
      if (!numbers.insert(source.number).second) return fmt::format("two sources have the number {}", source.number);
      if (source.given > kMost || source.number > kMost || source.documents > kMost || source.tokens > kMost ||
          !std::isfinite(source.weight))
        return fmt::format("a number of the source {} is out of range", in_quotes(source.path));
    }
  return {};
}

std::string definition_of(const DataOrder& order) {
  std::string text = fmt::format("order 1\nseed {}\nsequence_tokens {}\nvalidation_fraction {}\n", order.seed,
                                 order.sequence_tokens, order.validation_fraction);
  for (size_t k = 0; k < order.sources.size(); ++k) {
    const OrderSource& source = order.sources[k];
    text += fmt::format("train[{}] weight {} documents {} tokens {} digest {}\n", k, source.weight, source.documents,
                        source.tokens, source.digest);
  }
  return text;
}

std::string fingerprint_of(const DataOrder& order) {
  std::string text = definition_of(order);
  if (!is_new(order)) {
    text += fmt::format("first_sample {}\n", order.first_sample);
    for (size_t k = 0; k < order.sources.size(); ++k)
      text += fmt::format("train[{}] number {} given {}\n", k, order.sources[k].number, order.sources[k].given);
    for (const OrderSource& source : order.gone)
      text += fmt::format("gone digest {} number {} given {}\n", source.digest, source.number, source.given);
  }
  return xxh128_hex(text.data(), text.size());
}

std::vector<int64_t> given_before(const DataOrder& order, int64_t global_sample) {
  ensure(global_sample >= order.first_sample, "a sample before the order began");
  std::vector<double> weights;
  for (const OrderSource& source : order.sources) weights.push_back(source.weight);
  std::vector<int64_t> given = Blend(weights).counts(global_sample - order.first_sample);
  for (size_t k = 0; k < given.size(); ++k) given[k] = checked_add(given[k], order.sources[k].given);
  return given;
}

DataChanges data_changes(const DataOrder& then, const DataOrder& now) {
  DataChanges changes;
  const auto numbers = [&changes](const char* key, auto was, auto is) {
    if (was == is) return;
    changes.lines.push_back(fmt::format("{}: {} -> {}", key, was, is));
    changes.inexact.push_back(changes.lines.back());
  };
  numbers("runtime.seed", then.seed, now.seed);
  numbers("data.sequence_tokens", then.sequence_tokens, now.sequence_tokens);
  numbers("data.validation_fraction", then.validation_fraction, now.validation_fraction);

  const std::vector<int64_t> known = known_as(then, now);
  const auto sources_then = std::ssize(then.sources);
  std::set<int64_t> kept;
  bool in_order = true;
  int64_t last = -1;
  for (const int64_t place : known) {
    if (place < 0 || place >= sources_then) continue;
    in_order = in_order && place > last;
    last = place;
    kept.insert(place);
  }
  for (size_t k = 0; k < known.size(); ++k) {
    const OrderSource& source = now.sources[k];
    const int64_t place = known[k];
    if (place >= sources_then) {
      changes.lines.push_back(
          fmt::format("{} is back, after {} that it gave before it was taken out", label(k, source),
                      counted(then.gone[static_cast<size_t>(place - sources_then)].given, "sample")));
    } else if (place >= 0) {
      const OrderSource& before = then.sources[static_cast<size_t>(place)];
      if (!in_order && place != static_cast<int64_t>(k))
        changes.lines.push_back(fmt::format("{} was data.train[{}]", label(k, source), place));
      if (before.weight != source.weight)
        changes.lines.push_back(fmt::format("data.train[{}].weight ({}): {} -> {}", k, in_quotes(source.path),
                                            before.weight, source.weight));
    } else if (k < then.sources.size() && then.sources[k].path == source.path) {
      changes.lines.push_back(fmt::format("{} has other content, {} -> {}, and counts as a new source",
                                          label(k, source), size_of_source(then.sources[k]), size_of_source(source)));
    } else {
      changes.lines.push_back(fmt::format("{}, {}, is new", label(k, source), size_of_source(source)));
    }
  }
  for (size_t j = 0; j < then.sources.size(); ++j) {
    const OrderSource& before = then.sources[j];
    const bool told = j < now.sources.size() && known[j] < 0 && now.sources[j].path == before.path;
    if (kept.count(static_cast<int64_t>(j)) == 0 && !told)
      changes.lines.push_back(
          fmt::format("{}, {}, is gone; it was data.train[{}]", in_quotes(before.path), size_of_source(before), j));
  }
  return changes;
}

DataOrder continued(const DataOrder& then, const DataOrder& now, int64_t from) {
  ensure(data_changes(then, now).inexact.empty(), "these data cannot be continued exactly");
  const std::vector<int64_t> given = given_before(then, from), known = known_as(then, now);
  std::vector<OrderSource> all = then.sources;
  for (size_t j = 0; j < given.size(); ++j) all[j].given = given[j];
  all.insert(all.end(), then.gone.begin(), then.gone.end());
  int64_t unused = 0;
  for (const OrderSource& source : all) unused = std::max(unused, source.number + 1);

  DataOrder next = now;
  next.first_sample = from;
  std::set<int64_t> kept;
  for (size_t k = 0; k < known.size(); ++k) {
    OrderSource& source = next.sources[k];
    if (known[k] >= 0) {
      source.number = all[static_cast<size_t>(known[k])].number;
      source.given = all[static_cast<size_t>(known[k])].given;
      kept.insert(known[k]);
    } else {
      source.number = unused++;
      source.given = 0;
    }
  }
  next.gone.clear();
  for (size_t place = 0; place < all.size(); ++place)
    if (kept.count(static_cast<int64_t>(place)) == 0) next.gone.push_back(all[place]);
  return next;
}

DataOrder restarted(const DataOrder& now, int64_t from) {
  DataOrder next = now;
  next.first_sample = from;
  return next;
}

}  // namespace trainctl
