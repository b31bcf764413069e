// tests/support/load_line.h -- what a run's log says that its ranks have loaded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <regex>
#include <string>

#include "base/atomic_file.h"

namespace trainctl::testing {

struct LoadLine {
  int64_t read = -1;    // from disk, by all ranks together
  int64_t stored = -1;  // in the checkpoint's data files
};

// Of the last load of the run; -1 when there was none by several ranks.
inline LoadLine last_load(const std::filesystem::path& run_dir) {
  const std::string log = read_file(run_dir / "logs/rank-00000.log");
  const std::regex line(R"(all ranks loaded .*\((\d+) bytes\) read from disk, of .*\((\d+) bytes\))");
  LoadLine last;
  for (auto at = std::sregex_iterator(log.begin(), log.end(), line); at != std::sregex_iterator(); ++at)
    last = {std::stoll((*at)[1]), std::stoll((*at)[2])};
  return last;
}

}  // namespace trainctl::testing
