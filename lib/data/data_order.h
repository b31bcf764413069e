// lib/data/data_order.h -- where the sources of a run stand: what a later run needs to go on with the same training
// samples, or with other data behind them. Numbers and digests only: sources that are gone need not be there.
//
// A run's training samples are numbered from 0 without a gap. An order says what the samples from `first_sample` on
// hold: sample g is number g - first_sample of the blend of the weights (blend.h), and its ordinal in its source is
// `given` more than the one that the blend says. A change of the data ends an order and begins another at the sample
// where it is made; samples before are never asked for again, so only the last order is kept.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/config_visitor.h"

namespace trainctl {

struct OrderSource {
  std::string path;    // as the recipe names it, for messages: it decides nothing
  std::string digest;  // of its content; a source is known again by it
  int64_t documents = 0, tokens = 0;
  double weight = 1;
  int64_t number = 0;  // keys its document orders: its index in data.train of a new run; later ones count on
  int64_t given = 0;   // training samples it had given when this order began
  void describe(ConfigVisitor& v);
};

struct DataOrder {
  int64_t seed = 0, sequence_tokens = 0;
  double validation_fraction = 0;
  int64_t first_sample = 0;          // global, of the run
  std::vector<OrderSource> sources;  // as in data.train
  std::vector<OrderSource> gone;     // were in the data and are not any more; they go on when they come back
  void describe(ConfigVisitor& v);
};

// "" or what is wrong with an order that was read: no source, numbers twice, values out of range.
std::string order_fault(const DataOrder& order);

// What the recipe and the files say, one "key value" line each: seed, sequence_tokens, validation_fraction, and per
// source weight, documents, tokens and content digest. Neither paths nor layout nor where the sources stand.
std::string definition_of(const DataOrder& order);
// 32 hex digits of all that decides the samples from first_sample on; of a new run, those of definition_of().
std::string fingerprint_of(const DataOrder& order);

// Training samples that each of order.sources has given before `global_sample` >= first_sample.
std::vector<int64_t> given_before(const DataOrder& order, int64_t global_sample);

// How the data of `now` (a new run's order) differ from those of `then`, in words with old and new values; empty: not
// at all. A source whose file has other content is named with its sizes and digests before and after. Weights in the
// same proportions (blend_shares) do not differ. `inexact`: of them the changes after which a source cannot go on
// behind what it has given, because its samples are cut or shuffled otherwise.
struct DataChanges {
  std::vector<std::string> lines, inexact;
};
DataChanges data_changes(const DataOrder& then, const DataOrder& now);

// `then`, with the paths and weights of `now`. Requires that data_changes(then, now) has no line.
DataOrder same_data(const DataOrder& then, const DataOrder& now);
// The data of `now` from global sample `from` on. Sources of `then` go on behind what they have given; the n-th of
// several with the same content is the n-th of those in `then`, before those that are gone. The others begin at their
// first sample. The blend begins anew. Requires data_changes(then, now).inexact to be empty.
DataOrder continued(const DataOrder& then, const DataOrder& now, int64_t from);
// The samples of a new run with the data of `now`, from its first, as samples `from` and on of this run.
DataOrder restarted(const DataOrder& now, int64_t from);

}  // namespace trainctl
