// lib/data/sampler.h -- the batches of a run: what global sample g holds, for any g, the same for every layout.
//
// Global sample g of a split comes from the source that the blend says (blend.h); its ordinal there, divided by the
// sequences per epoch of that source, is the epoch, the rest the place in that epoch's shuffled order
// (document_stream.h). Nothing depends on earlier calls, ranks or batch sizes, so a run may be stopped, resumed and
// laid out in any way. A run whose data changed on the way follows another order from there on (data_order.h).
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "data/blend.h"
#include "data/data_config.h"
#include "data/data_order.h"
#include "data/document_stream.h"
#include "data/indexed_tokens.h"

namespace trainctl {

inline constexpr int32_t kNoLabel = -1;  // a position whose prediction is not counted

struct SampleId {
  int64_t source = 0;  // index in data.train
  int64_t epoch = 0;   // of that source
  int64_t index = 0;   // sequence within the epoch's document order
  bool operator==(const SampleId&) const = default;
};

// Rows of S = sequence_tokens int32 values, row r at pointer + r * S.
struct BatchView {
  int32_t* tokens = nullptr;
  int32_t* labels = nullptr;          // the next token; kNoLabel where document_mask is on and it is another document's
  int32_t* positions = nullptr;       // 0..S-1; with reset_positions they restart at 0 with each document
  int32_t* document_start = nullptr;  // index in the row where the token's document begins; 0 without document_mask
  SampleId* ids = nullptr;            // [count]; null: not wanted
};

struct Sample {
  std::vector<int32_t> tokens, labels, positions, document_start;  // [S] each
  SampleId id;
};

class Sampler {
 public:
  // Opens every source; the order is that of a new run. vocab: ids must lie in [0, vocab). Throws Error{input} for bad
  // files, Error{config} for bad weights. Whether the documents are enough is another question, which only the order
  // that is followed in the end can answer: why_empty().
  Sampler(const DataConfig& config, int64_t seed, int64_t vocab);
  ~Sampler();

  int64_t sequence_tokens() const { return config_.sequence_tokens; }
  int64_t sources() const { return static_cast<int64_t>(files_.size()); }
  const IndexedTokens& file(int64_t source) const { return *files_[static_cast<size_t>(source)]; }

  // Sums over the sources, each counted once.
  int64_t documents(Split split) const;
  int64_t tokens(Split split) const;
  int64_t samples_per_epoch(Split split) const;  // 0: the split is empty
  int64_t dropped_tokens_per_epoch(Split split) const;
  // The same for one source.
  int64_t samples_per_epoch(Split split, int64_t source) const;
  // Why the split can give no sample, with numbers, and what to change; "": it can. Training needs a full sequence
  // (S + 1 tokens) of every source; sources without one are left out of validation, which needs one of any source.
  // Which documents a source trains on follows from its number in the order.
  std::string why_empty(Split split) const;
  void require(Split split) const;  // throws Error{input} with why_empty()

  SampleId id(Split split, int64_t global_sample) const;
  Sample sample(Split split, int64_t global_sample) const;
  // Samples [first, first + count) into out; of the training split first >= order().first_sample. Allocates only when a
  // source enters an epoch for the first time. Throws Error{input} as require(), and for an id outside the vocabulary.
  // May be called from several threads.
  void fill(Split split, int64_t first_global_sample, int64_t count, const BatchView& out) const;

  // What decides which training sample is which. Validation samples are always numbered from 0, in the blend of the
  // sources that have one, each from its first.
  const DataOrder& order() const { return order_; }
  // From here on training samples come as `order` says, whose sources are this sampler's, content by content; their
  // validation documents keep to their numbers too. Not while another thread reads.
  void follow(const DataOrder& order);

 private:
  struct SplitState {
    std::vector<std::unique_ptr<DocumentStream>> streams;  // one per source
    std::vector<size_t> blended;                           // sources with a full sequence
    std::optional<Blend> blend;                            // over `blended`; empty: the split has no sample
  };
  SplitState& state(Split split) const { return split == Split::train ? *train_ : *validation_; }
  void make_splits();
  SampleId id_locked(Split split, int64_t global_sample) const;

  DataConfig config_;
  int64_t vocab_;
  std::vector<std::unique_ptr<IndexedTokens>> files_;
  DataOrder order_;
  std::unique_ptr<SplitState> train_, validation_;
  mutable std::mutex mutex_;  // guards the streams' epoch caches and the two buffers
  mutable std::vector<int32_t> window_, starts_;
};

}  // namespace trainctl
