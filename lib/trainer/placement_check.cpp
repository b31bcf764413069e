// lib/trainer/placement_check.cpp -- affinity of the process, and clashes between ranks.
#include "trainer/placement_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <unistd.h>

#include <map>

#include "trainer/rank_report.h"

namespace trainctl {

std::string place_text() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::string cores;
  int bound = 0;
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int c = 0; c < CPU_SETSIZE; ++c) {
      if (!CPU_ISSET(static_cast<size_t>(c), &set)) continue;
      ++bound;
      int last = c;
      while (last + 1 < CPU_SETSIZE && CPU_ISSET(static_cast<size_t>(last + 1), &set)) ++last;
      cores +=
          fmt::format("{}{}", cores.empty() ? "" : ",", c == last ? std::to_string(c) : fmt::format("{}-{}", c, last));
      bound += last - c;
      c = last;
    }
  return host_name() + "\n" + (bound < online ? cores : "");
}

std::vector<std::string> shared_cores(const std::vector<std::string>& places) {
  std::map<std::string, std::vector<int>> ranks_at;
  for (size_t r = 0; r < places.size(); ++r)
    if (!places[r].empty() && places[r].back() != '\n') ranks_at[places[r]].push_back(static_cast<int>(r));
  std::vector<std::string> clashes;
  for (const auto& [place, ranks] : ranks_at) {
    if (ranks.size() < 2) continue;
    const size_t cut = place.find('\n');
    clashes.push_back(fmt::format("ranks {} on {} are bound to the same cores {}; bind each to its own (--bind core)",
                                  fmt::join(ranks, ", "), place.substr(0, cut), place.substr(cut + 1)));
  }
  return clashes;
}

}  // namespace trainctl
