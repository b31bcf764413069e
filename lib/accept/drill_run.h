// lib/accept/drill_run.h -- one `trainctl launch` as a process of its own, watched, and killed when asked for.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace trainctl {

struct StepNumbers {
  double loss = 0, grad_norm = 0;
  bool operator==(const StepNumbers&) const = default;
};
// By step, of a metrics.jsonl. Throws Error{input} when it cannot be read.
std::map<int64_t, StepNumbers> step_numbers(const std::filesystem::path& metrics);

struct DrillRun {
  int exit_code = 0;
  bool killed = false;                  // a rank was killed while the launch ran
  std::string error;                    // the last "trainctl: KIND: ..." of its output, without "trainctl: "
  std::vector<std::string> last_lines;  // of its output; what was printed earlier may come later through a pipe
};
// Runs argv to its end; its output goes to `log`. Once `kill_when` says so, SIGKILL goes to the rank with the highest
// number (or to the one process of all ranks).
DrillRun run_launch(const std::vector<std::string>& argv, const std::filesystem::path& log,
                    const std::function<bool()>& kill_when = {});

}  // namespace trainctl
