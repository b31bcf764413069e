// tests/unit/data/data_test_support.h -- scratch folders, and token files written byte by byte, past the library.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/data_config.h"
#include "data/indexed_tokens.h"

namespace trainctl::testing {

class ScratchFolder {  // removed at the end
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

void write_bytes(const std::filesystem::path& path, const std::string& bytes);
std::string read_bytes(const std::filesystem::path& path);

// The fields of an index; defaults are right, each can be made wrong.
struct RawIndex {
  std::string magic{"MMIDIDX\0\0", 9};
  uint64_t version = 1;
  uint8_t code = 8;
  std::vector<int32_t> sizes;
  std::vector<int64_t> pointers;
  std::vector<int64_t> borders{0};
  int64_t claimed_sequences = -1;  // -1: sizes.size()
  int64_t claimed_borders = -1;    // -1: borders.size()
  std::string bytes() const;
};

// One sequence per document, dense; `width` bytes per token, two's complement.
struct RawCorpus {
  RawIndex index;
  std::string bin;
};
RawCorpus raw_corpus(const std::vector<std::vector<int64_t>>& documents, uint8_t code, int width);
void write_corpus(const std::filesystem::path& prefix, const RawCorpus& corpus);

// Documents of the given lengths whose token ids count up through the whole corpus: an id names its place.
std::vector<std::vector<int64_t>> counting_documents(const std::vector<int64_t>& lengths);
// ... written as int32 under `prefix`.
void write_counting(const std::filesystem::path& prefix, const std::vector<int64_t>& lengths);

std::vector<int64_t> all_ids(const IndexedTokens& file);
DataConfig config_of(const std::vector<std::string>& paths, int64_t sequence_tokens);

int64_t allocations_so_far();  // of the whole program

std::string source_path(const std::string& relative);  // in the source tree

}  // namespace trainctl::testing
