// lib/data/data_config.cpp -- the keys of the "data" section.
#include "data/data_config.h"

namespace trainctl {

void DataSourceConfig::describe(ConfigVisitor& v) {
  v.field("path", path, "token files: the prefix of PREFIX.bin and PREFIX.idx, or either file",
          Rule{}.required().also_called({"prefix", "file", "data_path"}));
  v.field("weight", weight, "share of the samples, relative to the other sources", above(0));
}

void TokenizerConfig::describe(ConfigVisitor& v) {
  v.field("kind", kind, "bytes: ids 0 to 255 are bytes, 256 ends a document",
          one_of({"bytes"}).not_built({"bpe", "sentencepiece", "tiktoken", "huggingface"}).also_called({"type"}));
}

void DataConfig::describe(ConfigVisitor& v) {
  v.field("train", train, "sources of training documents",
          Rule{}.required().also_called({"sources", "datasets", "train_data", "data_path"}));
  v.field("validation_fraction", validation_fraction, "share of the documents kept for evaluation, chosen by seed",
          from_to_below(0, 1).also_called({"split", "valid_fraction", "val_fraction"}));
  v.field("tokenizer", tokenizer, "what token ids mean");
  v.field("sequence_tokens", sequence_tokens, "tokens per sequence",
          between(1, (1LL << 31) - 1)
              .required()
              .also_called({"sequence_length", "seq_length", "seq_len", "max_seq_len", "context_length"}));
  v.field("document_mask", document_mask, "attention and loss do not cross document borders",
          Rule{}.also_called({"reset_attention_mask"}));
  v.field("reset_positions", reset_positions, "positions restart at each document",
          Rule{}.also_called({"reset_position_ids"}));
  v.field("log_samples", log_samples, "write the consumed sample ids to samples.jsonl");
  v.field("on_change", on_change,
          "when a run resumes and these data are not those of its checkpoint: refuse; continue: each source goes on "
          "behind the samples it has given, new ones begin at their first; restart: the order begins anew",
          one_of({"refuse", "continue", "restart"}));
}

}  // namespace trainctl
