// lib/data/sampler.cpp -- blend, epoch and sequence put together; labels, positions and document borders.
#include "data/sampler.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/units.h"

namespace trainctl {

Sampler::~Sampler() = default;

Sampler::Sampler(const DataConfig& config, int64_t seed, int64_t vocab) : config_(config), vocab_(vocab) {
  const int64_t S = config.sequence_tokens;
  if (S < 1 || S > (int64_t{1} << 31) - 1) {
    fail(ErrorKind::config, fmt::format("data.sequence_tokens is {}; it must be 1 to 2147483647", S));
  }
  if (vocab < 1 || vocab > int64_t{1} << 31) {
    fail(ErrorKind::config, fmt::format("the vocabulary has {} ids; it must have 1 to 2147483648", vocab));
  }
  if (!(config.validation_fraction >= 0 && config.validation_fraction < 1)) {
    fail(ErrorKind::config,
         fmt::format("data.validation_fraction is {}; it must be at least 0 and below 1", config.validation_fraction));
  }
  if (config.train.empty()) fail(ErrorKind::config, "data.train is empty; name at least one source");
  order_.seed = seed;
  order_.sequence_tokens = S;
  order_.validation_fraction = config.validation_fraction;
  for (const DataSourceConfig& source : config.train) {
    const IndexedTokens& file = *files_.emplace_back(std::make_unique<IndexedTokens>(source.path));
    order_.sources.push_back({.path = source.path,
                              .digest = file.digest(),
                              .documents = file.documents(),
                              .tokens = file.tokens(),
                              .weight = source.weight,
                              .number = std::ssize(order_.sources),
                              .given = 0});
  }
  make_splits();
  window_.resize(static_cast<size_t>(S + 1));
  starts_.resize(static_cast<size_t>(S + 1));
}

void Sampler::make_splits() {
  train_ = std::make_unique<SplitState>();
  validation_ = std::make_unique<SplitState>();
  const int64_t S = config_.sequence_tokens;
  for (const Split split : {Split::train, Split::validation}) {
    SplitState& s = state(split);
    std::vector<double> weights;
    for (size_t k = 0; k < files_.size(); ++k) {
      s.streams.push_back(std::make_unique<DocumentStream>(
          *files_[k], DocumentStream::Options{.split = split,
                                              .validation_fraction = config_.validation_fraction,
                                              .seed = order_.seed,
                                              .source = order_.sources[k].number,
                                              .sequence_tokens = S}));
      const DocumentStream& stream = *s.streams.back();
      if (stream.sequences_per_epoch() > 0) {
        s.blended.push_back(k);
        weights.push_back(config_.train[k].weight);
      }
    }
    if (!weights.empty()) s.blend.emplace(weights);
  }
}

void Sampler::follow(const DataOrder& order) {
  ensure(definition_of(order) == definition_of(order_), "an order of other data than this sampler's");
  order_ = order;
  for (size_t k = 0; k < config_.train.size(); ++k) order_.sources[k].path = config_.train[k].path;
  make_splits();
}

int64_t Sampler::documents(Split split) const {
  int64_t sum = 0;
  for (const auto& stream : state(split).streams) sum += stream->documents();
  return sum;
}

int64_t Sampler::tokens(Split split) const {
  int64_t sum = 0;
  for (const auto& stream : state(split).streams) sum += stream->tokens();
  return sum;
}

int64_t Sampler::samples_per_epoch(Split split) const {
  int64_t sum = 0;
  for (const auto& stream : state(split).streams) sum += stream->sequences_per_epoch();
  return sum;
}

int64_t Sampler::samples_per_epoch(Split split, int64_t source) const {
  return state(split).streams.at(static_cast<size_t>(source))->sequences_per_epoch();
}

int64_t Sampler::dropped_tokens_per_epoch(Split split) const {
  int64_t sum = 0;
  for (const auto& stream : state(split).streams) sum += stream->dropped_tokens_per_epoch();
  return sum;
}

std::string Sampler::why_empty(Split split) const {
  const SplitState& s = state(split);
  if (split == Split::train) {
    std::string faults;
    for (size_t k = 0; k < s.streams.size(); ++k) {
      const DocumentStream& stream = *s.streams[k];
      if (stream.sequences_per_epoch() > 0) continue;
      faults += fmt::format(
          "{}data.train[{}] {}: its {} training documents ({} in the file, validation_fraction {}) have {} tokens, "
          "fewer than one sequence of {} + 1. Use a larger source or sequence_tokens <= {}",
          faults.empty() ? "" : "\n", k, config_.train[k].path, stream.documents(), files_[k]->documents(),
          config_.validation_fraction, stream.tokens(), config_.sequence_tokens,
          std::max<int64_t>(0, stream.tokens() - 1));
    }
    return faults;
  }
  if (s.blend) return {};
  if (config_.validation_fraction == 0) {
    return "data.validation_fraction is 0: no document is held back for validation; set it above 0, for example 0.01";
  }
  return fmt::format(
      "data.validation_fraction {} holds back {} documents with {} tokens, and no source has one full "
      "sequence of {} + 1 among them; raise it, or prepare the text in more documents",
      config_.validation_fraction, documents(split), tokens(split), config_.sequence_tokens);
}

void Sampler::require(Split split) const {
  const std::string why = why_empty(split);
  if (!why.empty()) fail(ErrorKind::input, split == Split::train ? why : "the validation split has no sample: " + why);
}

SampleId Sampler::id_locked(Split split, int64_t global_sample) const {
  const SplitState& s = state(split);
  const bool train = split == Split::train;
  const Blend::Place place = s.blend->locate(global_sample - (train ? order_.first_sample : 0));
  const size_t source = s.blended[static_cast<size_t>(place.source)];
  DocumentStream& stream = *s.streams[source];
  const int64_t ordinal = checked_add(place.ordinal, train ? order_.sources[source].given : 0);
  const int64_t per_epoch = stream.sequences_per_epoch();
  const int64_t epoch = ordinal / per_epoch;
  return {static_cast<int64_t>(source), epoch, stream.shuffled(epoch, ordinal % per_epoch)};
}

SampleId Sampler::id(Split split, int64_t global_sample) const {
  SampleId result;
  fill(split, global_sample, 1, {.ids = &result});
  return result;
}

Sample Sampler::sample(Split split, int64_t global_sample) const {
  const auto S = static_cast<size_t>(config_.sequence_tokens);
  Sample s{.tokens = std::vector<int32_t>(S),
           .labels = std::vector<int32_t>(S),
           .positions = std::vector<int32_t>(S),
           .document_start = std::vector<int32_t>(S),
           .id = {}};
  fill(split, global_sample, 1, {s.tokens.data(), s.labels.data(), s.positions.data(), s.document_start.data(), &s.id});
  return s;
}

void Sampler::fill(Split split, int64_t first_global_sample, int64_t count, const BatchView& out) const {
  const int64_t lowest = split == Split::train ? order_.first_sample : 0;
  ensure(first_global_sample >= lowest && count >= 0, "samples before the first of the order");
  checked_add(first_global_sample, count);
  const SplitState& s = state(split);
  if (s.blended.size() < (split == Split::train ? files_.size() : 1)) require(split);
  const int64_t S = config_.sequence_tokens;
  const bool want_rows = out.tokens || out.labels || out.positions || out.document_start;
  const std::lock_guard lock(mutex_);
  for (int64_t row = 0; row < count; ++row) {
    const SampleId id = id_locked(split, first_global_sample + row);
    if (out.ids) out.ids[row] = id;
    if (!want_rows) continue;
    s.streams[static_cast<size_t>(id.source)]->read(id.epoch, id.index, vocab_, window_.data(), starts_.data());
    const int32_t *window = window_.data(), *starts = starts_.data();
    const int64_t at = row * S;
    for (int64_t t = 0; t < S; ++t) {
      const bool ends_document = starts[t + 1] == t + 1;
      if (out.tokens) out.tokens[at + t] = window[t];
      if (out.labels) out.labels[at + t] = config_.document_mask && ends_document ? kNoLabel : window[t + 1];
      if (out.positions) out.positions[at + t] = static_cast<int32_t>(t - (config_.reset_positions ? starts[t] : 0));
      if (out.document_start) out.document_start[at + t] = config_.document_mask ? starts[t] : 0;
    }
  }
}

}  // namespace trainctl
