// lib/launch/launcher_output.h -- what mpirun and srun print: which rank a line is from, and who died how.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl {

struct TaggedLine {
  int64_t rank = -1;  // -1: the launcher's own
  std::string text;
};
// "[1,3]<stderr>:text" (mpirun --tag-output), "3: text" (srun --label); anything else is the launcher's own.
TaggedLine untag(std::string_view line, std::string_view launcher);

// The first rank that ended badly, as the launcher saw it.
struct LauncherVerdict {
  int64_t rank = -1;
  std::string host{};              // "" when not said
  std::optional<int> exit_code{};  // of the rank
  std::optional<int> signal{};
  std::string signal_name{};
  std::string launcher_problem{};  // the launcher could not start the ranks: its own words
  bool empty() const { return rank < 0 && launcher_problem.empty(); }
};

class LauncherOutput {
 public:
  explicit LauncherOutput(std::string launcher) : launcher_(std::move(launcher)) {}
  TaggedLine add(std::string_view line);

  LauncherVerdict verdict() const;
  std::vector<std::string> last_lines(int64_t rank) const;  // of a rank (-1: the launcher's own), newest last

 private:
  static constexpr size_t kKept = 40;
  std::string launcher_;
  std::map<int64_t, std::deque<std::string>> lines_;
};

}  // namespace trainctl
