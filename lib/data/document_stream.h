// lib/data/document_stream.h -- one source, one split: its documents in a new order every epoch, cut into sequences.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "data/indexed_tokens.h"
#include "data/permutation.h"

namespace trainctl {

enum class Split : uint8_t { train, validation };
std::string_view name(Split split);

// How many of `documents` go to validation: fraction * documents rounded to nearest, but at least one when the fraction
// is above 0, and never all; a single document stays in training.
int64_t validation_documents(int64_t documents, double fraction);

// Every quantity is a pure function of the arguments of the constructor and of (epoch, sequence):
// - the split: documents in the order of a permutation keyed by (seed, source); the first ones are validation;
// - an epoch: the split's T tokens, documents concatenated in a permutation keyed by (seed, source, split, epoch);
// - sequence i of the epoch reads tokens [i S, i S + S] (S inputs and the label of the last), for i < floor((T-1) / S).
// So each token is an input exactly once per epoch, but for the last T - S floor((T-1)/S) tokens (1 to S of them) of
// that epoch's order; another epoch has other documents at its end.
class DocumentStream {
 public:
  struct Options {
    Split split = Split::train;
    double validation_fraction = 0;  // in [0, 1)
    int64_t seed = 0;
    int64_t source = 0;
    int64_t sequence_tokens = 0;  // S >= 1
  };
  DocumentStream(const IndexedTokens& file, const Options& options);  // `file` outlives the stream

  int64_t documents() const { return documents_; }
  int64_t tokens() const { return tokens_; }  // T
  int64_t sequences_per_epoch() const { return sequences_; }
  int64_t dropped_tokens_per_epoch() const { return tokens_ - sequences_ * options_.sequence_tokens; }

  // Which sequence of the epoch is the given one in the epoch's sample order (a permutation of the sequences).
  int64_t shuffled(int64_t epoch, int64_t position);

  // The document (number in the file) at a place of the epoch's order, 0 <= place < documents().
  int64_t document(int64_t epoch, int64_t place);

  // window [S + 1] tokens of the sequence; document_start [S + 1]: where in the window the document of each token
  // begins (0 for one that began earlier). Ids are checked against vocab. Two epochs are kept (even and odd): going
  // through samples in order builds each once, O(documents); else O(log documents + S), without allocation.
  void read(int64_t epoch, int64_t sequence, int64_t vocab, int32_t* window, int32_t* document_start);

 private:
  static constexpr int64_t kBlock = 16;  // documents per entry of the running token count
  struct Epoch {
    int64_t number = -1;
    std::optional<Permutation> documents, sequences;
    std::vector<int64_t> block_start;  // tokens before document place 16 b
  };
  Epoch& epoch(int64_t number);
  int64_t document_at(const Epoch& epoch, int64_t place) const;

  const IndexedTokens* file_;
  Options options_;
  Permutation split_;
  uint64_t key_ = 0;
  int64_t first_ = 0, documents_ = 0, tokens_ = 0, sequences_ = 0;
  Epoch epochs_[2];
};

}  // namespace trainctl
