// tests/fuzz/support.cpp -- reading a corpus.
#include <algorithm>

#include "fuzz/target.h"
#include "unit/checkpoint/fixture.h"

namespace trainctl::fuzz {

std::vector<std::string> contents_below(const std::filesystem::path& folder) {
  std::vector<std::string> contents;
  for (const std::filesystem::path& file : testing::files_below(folder)) contents.push_back(testing::file_bytes(file));
  return contents;
}

}  // namespace trainctl::fuzz
