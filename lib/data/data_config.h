// lib/data/data_config.h -- the recipe's "data" section.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/config_visitor.h"

namespace trainctl {

struct DataSourceConfig {
  std::string path;  // prefix of PREFIX.bin / PREFIX.idx, or either file
  double weight = 1.0;
  void describe(ConfigVisitor& v);
};

struct TokenizerConfig {
  std::string kind = "bytes";  // bytes: ids 0..255 are bytes, 256 ends a document
  void describe(ConfigVisitor& v);
};

struct DataConfig {
  std::vector<DataSourceConfig> train;
  double validation_fraction = 0.0;  // of the documents, chosen by seed
  TokenizerConfig tokenizer;
  int64_t sequence_tokens = 0;
  bool document_mask = false;        // attention and loss do not cross document borders
  bool reset_positions = false;      // positions restart at each document
  bool log_samples = false;          // write the consumed sample ids to samples.jsonl
  std::string on_change = "refuse";  // refuse | continue | restart: what a resume does with other data (data_order.h)
  void describe(ConfigVisitor& v);
};

}  // namespace trainctl
