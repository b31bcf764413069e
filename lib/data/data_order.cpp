// lib/data/data_order.cpp -- see the header.
#include "data/data_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
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

// Of the source's path however it is written: absolute, without the extension of one of its two files.
std::string place_of(const OrderSource& source) {
  std::error_code ignored;
  const std::filesystem::path given = source.path;
  std::filesystem::path path = std::filesystem::absolute(given, ignored);
  if (ignored) path = given;
  path = path.lexically_normal();
  if (path.extension() == ".bin" || path.extension() == ".idx") path.replace_extension();
  return path.string();
}

// The sources of `now` and of `then` that are one to a reader: known by content, or with other content under the same
// path, in the order of the list.
struct Match {
  size_t now = 0, then = 0;
  bool same_content = true;
};
std::vector<Match> matches(const DataOrder& then, const DataOrder& now, const std::vector<int64_t>& known) {
  std::set<size_t> kept;
  for (const int64_t place : known)
    if (place >= 0 && place < std::ssize(then.sources)) kept.insert(static_cast<size_t>(place));
  std::map<std::string, std::vector<size_t>> left;  // of the others, by path, in the order in which they are taken
  for (size_t j = then.sources.size(); j-- > 0;)
    if (kept.count(j) == 0) left[place_of(then.sources[j])].push_back(j);
  std::vector<Match> all;
  for (size_t k = 0; k < known.size(); ++k) {
    if (known[k] >= 0 && known[k] < std::ssize(then.sources)) {
      all.push_back({k, static_cast<size_t>(known[k]), true});
    } else if (std::vector<size_t>& same = left[place_of(now.sources[k])]; !same.empty()) {
      all.push_back({k, same.back(), false});
      same.pop_back();
    }
  }
  return all;
}

// `back`: the source that had the content of `is` before it was taken out; null: none.
std::string content_change(size_t index, const OrderSource& was, const OrderSource& is, const OrderSource* back) {
  const std::string text = label(index, is) + " has other content";
  const std::string why = back ? fmt::format("; that content is back, after {} that it gave before it was taken out",
                                             counted(back->given, "sample"))
                               : "; it counts as a new source";
  if (size_of_source(was) == size_of_source(is))
    return fmt::format("{} of the same size ({}): digest {} -> {}{}", text, size_of_source(is), was.digest, is.digest,
                       why);
  return fmt::format("{}: {}, digest {} -> {}, digest {}{}", text, size_of_source(was), was.digest, size_of_source(is),
                     is.digest, why);
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
  const std::vector<Match> both = matches(then, now, known);
  const bool in_order = std::is_sorted(both.begin(), both.end(), [](auto& a, auto& b) { return a.then < b.then; });
  std::vector<double> weights_then, weights_now;
  for (const Match& m : both) {
    weights_then.push_back(then.sources[m.then].weight);
    weights_now.push_back(now.sources[m.now].weight);
  }
  const bool same_weights = both.empty() || blend_shares(weights_then) == blend_shares(weights_now);
  const auto back = [&](size_t k) {  // where the source stood that comes again; null: it is none of those
    const int64_t place = known[k] - std::ssize(then.sources);
    return place >= 0 ? &then.gone[static_cast<size_t>(place)] : nullptr;
  };
  std::set<size_t> told_now, told_then;
  for (const Match& m : both) {
    const OrderSource &was = then.sources[m.then], &is = now.sources[m.now];
    told_now.insert(m.now);
    told_then.insert(m.then);
    if (!m.same_content) changes.lines.push_back(content_change(m.now, was, is, back(m.now)));
    if (!in_order && m.then != m.now)
      changes.lines.push_back(fmt::format("{} was data.train[{}]", label(m.now, is), m.then));
    if (!same_weights && was.weight != is.weight)
      changes.lines.push_back(
          fmt::format("data.train[{}].weight ({}): {} -> {}", m.now, in_quotes(is.path), was.weight, is.weight));
  }
  for (size_t k = 0; k < known.size(); ++k) {
    if (told_now.count(k) > 0) continue;
    const OrderSource& source = now.sources[k];
    if (const OrderSource* before = back(k))
      changes.lines.push_back(fmt::format("{} is back, after {} that it gave before it was taken out", label(k, source),
                                          counted(before->given, "sample")));
    else
      changes.lines.push_back(fmt::format("{}, {}, is new", label(k, source), size_of_source(source)));
  }
  for (size_t j = 0; j < then.sources.size(); ++j)
    if (told_then.count(j) == 0)
      changes.lines.push_back(fmt::format("{}, {}, is gone; it was data.train[{}]", in_quotes(then.sources[j].path),
                                          size_of_source(then.sources[j]), j));
  return changes;
}

DataOrder same_data(const DataOrder& then, const DataOrder& now) {
  ensure(data_changes(then, now).lines.empty(), "these data are not the same");
  DataOrder next = then;
  for (size_t k = 0; k < next.sources.size(); ++k) {
    next.sources[k].path = now.sources[k].path;
    next.sources[k].weight = now.sources[k].weight;
  }
  return next;
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
