// tests/unit/data/data_test_support.cpp -- see the header.
#include "data_test_support.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "base/hash.h"

namespace trainctl::testing {
namespace fs = std::filesystem;
namespace {

template <class T>
void put(std::string& out, T value, int width = sizeof(T)) {
  auto bits = static_cast<uint64_t>(value);
  for (int i = 0; i < width; ++i, bits >>= 8) out.push_back(static_cast<char>(bits & 0xff));
}

}  // namespace

ScratchFolder::ScratchFolder() : path_(fs::temp_directory_path() / ("trainctl-data-" + random_hex(12))) {
  fs::create_directories(path_);
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void write_bytes(const fs::path& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file) throw std::runtime_error("cannot write " + path.string());
}

std::string read_bytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string RawIndex::bytes() const {
  std::string out = magic;
  put(out, version);
  put(out, code);
  put(out, claimed_sequences < 0 ? static_cast<int64_t>(sizes.size()) : claimed_sequences);
  put(out, claimed_borders < 0 ? static_cast<int64_t>(borders.size()) : claimed_borders);
  for (const int32_t s : sizes) put(out, s);
  for (const int64_t p : pointers) put(out, p);
  for (const int64_t b : borders) put(out, b);
  return out;
}

RawCorpus raw_corpus(const std::vector<std::vector<int64_t>>& documents, uint8_t code, int width) {
  RawCorpus corpus;
  corpus.index.code = code;
  for (const auto& document : documents) {
    corpus.index.pointers.push_back(static_cast<int64_t>(corpus.bin.size()));
    corpus.index.sizes.push_back(static_cast<int32_t>(document.size()));
    corpus.index.borders.push_back(static_cast<int64_t>(corpus.index.sizes.size()));
    for (const int64_t id : document) put(corpus.bin, id, width);
  }
  return corpus;
}

void write_corpus(const fs::path& prefix, const RawCorpus& corpus) {
  write_bytes(prefix.string() + ".idx", corpus.index.bytes());
  write_bytes(prefix.string() + ".bin", corpus.bin);
}

std::vector<std::vector<int64_t>> counting_documents(const std::vector<int64_t>& lengths) {
  std::vector<std::vector<int64_t>> documents;
  int64_t next = 0;
  for (const int64_t length : lengths) {
    documents.emplace_back();
    for (int64_t i = 0; i < length; ++i) documents.back().push_back(next++);
  }
  return documents;
}

void write_counting(const fs::path& prefix, const std::vector<int64_t>& lengths) {
  write_corpus(prefix, raw_corpus(counting_documents(lengths), 4, 4));
}

std::vector<int64_t> all_ids(const IndexedTokens& file) {
  std::vector<int64_t> ids;
  for (int64_t d = 0; d < file.documents(); ++d) {
    const int64_t length = file.document_tokens(d);
    ids.resize(ids.size() + static_cast<size_t>(length));
    file.read_unchecked(d, 0, length, ids.data() + static_cast<int64_t>(ids.size()) - length);
  }
  return ids;
}

DataConfig config_of(const std::vector<std::string>& paths, int64_t sequence_tokens) {
  DataConfig config;
  for (const std::string& path : paths) {
    config.train.emplace_back();
    config.train.back().path = path;
  }
  config.sequence_tokens = sequence_tokens;
  return config;
}

std::string source_path(const std::string& relative) {
  const char* root = std::getenv("TRAINCTL_SOURCE");
  return std::string(root != nullptr ? root : ".") + "/" + relative;
}

}  // namespace trainctl::testing
