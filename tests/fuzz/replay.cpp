// tests/fuzz/replay.cpp -- a fuzz target without libFuzzer: the valid inputs, each of their bytes changed, and the
// committed corpus.
//   replay FOLDER...          runs them all; the last line says how many
//   replay --seeds FOLDER     writes the valid inputs there, for libFuzzer to start from
#include <algorithm>
#include <fstream>

#include "fuzz/target.h"

namespace {

using trainctl::fuzz::accepts;

// Each byte replaced by a few others, removed, and doubled. Long inputs: about `most` positions of them.
size_t try_changes(const std::string& input, size_t most) {
  size_t tried = 0;
  const size_t stride = input.size() / most + 1;
  for (size_t at = 0; at < input.size(); at += stride) {
    for (const char c : {'0', '9', '-', '"', '}', '\0', '\xff'}) {
      std::string changed = input;
      changed[at] = c;
      accepts(changed);
      ++tried;
    }
    accepts(std::string(input).erase(at, 1));
    accepts(std::string(input).insert(at, 1, input[at]));
    accepts(input.substr(0, at));
    tried += 3;
  }
  return tried;
}

}  // namespace

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  const std::vector<std::string> words(argv + 1, argv + argc), valid = trainctl::fuzz::valid_inputs();
  if (words.size() == 2 && words[0] == "--seeds") {
    fs::create_directories(words[1]);
    for (size_t i = 0; i < valid.size(); ++i)
      std::ofstream(fs::path(words[1]) / ("valid-" + std::to_string(i)), std::ios::binary) << valid[i];
    return 0;
  }
  size_t tried = 0, refused_valid = 0, corpus = 0;
  for (const std::string& input : valid) {
    refused_valid += !accepts(input);
    tried += 1 + try_changes(input, 300);
  }
  for (const std::string& folder : words) {
    const std::vector<std::string> inputs = trainctl::fuzz::contents_below(folder);
    for (const std::string& input : inputs) accepts(input);
    corpus += inputs.size();
  }
  std::printf("%zu inputs, %zu of them from the corpus; %zu valid ones refused\n", tried + corpus, corpus,
              refused_valid);
  return refused_valid == 0 && !valid.empty() && (words.empty() || corpus > 0) ? 0 : 1;
}
