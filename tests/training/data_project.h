// tests/training/data_project.h -- a project on disk with small prepared data, and runs of it that say which samples
// they took.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/subprocess.h"

namespace trainctl::testing {

using Words = std::vector<std::string>;
using Samples = std::vector<std::vector<int64_t>>;  // source number, epoch, sequence

inline constexpr int64_t kBatch = 4, kSequence = 16;

// Documents of unequal length: some 23, 17 and 14 samples per epoch of a, b and c.
std::string corpus(uint32_t state, int documents);

class Project {
 public:
  Project();
  std::filesystem::path path() const { return folder_.path(); }
  SubprocessResult trainctl(Words arguments) const;
  // data/NAME, also when it is there already.
  void prepare(const std::string& name, const std::string& text) const;
  // With ranks that are threads, unless `more` names another launcher.
  SubprocessResult launch(const std::string& run_dir, int ranks, int64_t steps, const Words& settings = {},
                          const Words& more = {}) const;
  // What was shown on stderr.
  std::string train(const std::string& run_dir, int ranks, int64_t steps, const Words& settings = {},
                    const Words& more = {}) const;
  void copy(const std::string& from, const std::string& to) const;
  std::vector<nlohmann::json> lines(const std::string& file) const;
  // Of steps first + 1, first + 2, ...; checks that no step is missing or twice.
  Samples samples(const std::string& run_dir, int64_t first = 0) const;
  std::string checkpoint(const std::string& run_dir, int64_t step) const;
  nlohmann::json inspect(const std::string& folder) const;

 private:
  TemporaryFolder folder_;
};

Samples part(const Samples& all, int64_t from, int64_t count);

}  // namespace trainctl::testing
