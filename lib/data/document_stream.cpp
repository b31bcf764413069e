// lib/data/document_stream.cpp -- pure functions for the orders, one running count per epoch to find a token.
#include "data/document_stream.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/philox.h"

namespace trainctl {

std::string_view name(Split split) { return split == Split::train ? "train" : "validation"; }

int64_t validation_documents(int64_t documents, double fraction) {
  ensure(fraction >= 0 && fraction < 1, "the validation fraction must lie in [0, 1)");
  if (fraction == 0 || documents < 2) return 0;
  const auto nearest = static_cast<int64_t>(std::llround(fraction * static_cast<double>(documents)));
  return std::clamp<int64_t>(nearest, 1, documents - 1);
}

DocumentStream::DocumentStream(const IndexedTokens& file, const Options& options)
    : file_(&file),
      options_(options),
      split_(file.documents(), static_cast<uint64_t>(options.seed),
             stream_of("data.split") + static_cast<uint64_t>(options.source)) {
  ensure(options.sequence_tokens >= 1, "sequence_tokens must be at least 1");
  const int64_t validation = validation_documents(file.documents(), options.validation_fraction);
  int64_t validation_tokens = 0;
  for (int64_t i = 0; i < validation; ++i) validation_tokens += file.document_tokens(split_(i));
  if (options.split == Split::validation) {
    documents_ = validation;
    tokens_ = validation_tokens;
  } else {
    first_ = validation;
    documents_ = file.documents() - validation;
    tokens_ = file.tokens() - validation_tokens;
  }
  sequences_ = std::max<int64_t>(0, (tokens_ - 1) / options.sequence_tokens);
  const auto words = philox(static_cast<uint64_t>(options.seed), stream_of("data.epochs"),
                            static_cast<uint64_t>(options.source) * 2 + (options.split == Split::validation ? 1 : 0));
  key_ = uint64_t{words[0]} << 32 | words[1];
}

int64_t DocumentStream::document_at(const Epoch& epoch, int64_t place) const {
  return split_(first_ + (*epoch.documents)(place));
}

DocumentStream::Epoch& DocumentStream::epoch(int64_t number) {
  ensure(number >= 0, "a negative epoch");
  Epoch& slot = epochs_[number % 2];
  if (slot.number == number) return slot;
  slot.number = -1;  // stays so when a call below throws
  slot.documents.emplace(documents_, key_, 2 * static_cast<uint64_t>(number));
  slot.sequences.emplace(sequences_, key_, 2 * static_cast<uint64_t>(number) + 1);
  slot.block_start.clear();  // keeps its storage: every epoch has as many entries
  slot.block_start.reserve(static_cast<size_t>(documents_ / kBlock + 1));
  int64_t before = 0;
  for (int64_t place = 0; place < documents_; ++place) {
    if (place % kBlock == 0) slot.block_start.push_back(before);
    before += file_->document_tokens(document_at(slot, place));
  }
  ensure(before == tokens_, "the documents of an epoch do not sum to the tokens of the split");
  slot.number = number;
  return slot;
}

int64_t DocumentStream::shuffled(int64_t number, int64_t position) { return (*epoch(number).sequences)(position); }

int64_t DocumentStream::document(int64_t number, int64_t place) { return document_at(epoch(number), place); }

void DocumentStream::read(int64_t number, int64_t sequence, int64_t vocab, int32_t* window, int32_t* document_start) {
  ensure(sequence >= 0 && sequence < sequences_, "sequence outside the epoch");
  const Epoch& order = epoch(number);
  const int64_t from = sequence * options_.sequence_tokens, want = options_.sequence_tokens + 1;
  const auto block = std::upper_bound(order.block_start.begin(), order.block_start.end(), from) - 1;
  int64_t place = (block - order.block_start.begin()) * kBlock;
  int64_t skip = from - *block;  // tokens of the documents from `place` on that lie before the sequence
  for (int64_t done = 0; done < want; ++place) {
    const int64_t document = document_at(order, place);
    const int64_t length = file_->document_tokens(document);
    if (skip >= length) {
      skip -= length;
      continue;
    }
    const int64_t part = std::min(length - skip, want - done);
    file_->read(document, skip, part, vocab, window + done);
    std::fill_n(document_start + done, part, static_cast<int32_t>(done));
    done += part;
    skip = 0;
  }
}

}  // namespace trainctl
