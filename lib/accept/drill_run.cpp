// lib/accept/drill_run.cpp -- see the header.
#include "accept/drill_run.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>
#include <thread>

#include "base/atomic_file.h"
#include "launch/child_process.h"
#include "launch/process_tree.h"

namespace trainctl {
namespace {

constexpr size_t kKeptLines = 12;
constexpr std::string_view kOurs = "trainctl: ";  // of errors and warnings

bool kill_a_rank(pid_t launcher) {
  const ProcessInfo* victim = nullptr;
  const std::vector<ProcessInfo> all = descendants();
  for (const ProcessInfo& p : all)
    if (p.pid != launcher && p.state != 'Z' && (victim == nullptr || p.rank > victim->rank)) victim = &p;
  return victim != nullptr && ::kill(victim->pid, SIGKILL) == 0;
}

}  // namespace

std::map<int64_t, StepNumbers> step_numbers(const std::filesystem::path& metrics) {
  std::map<int64_t, StepNumbers> numbers;
  std::istringstream lines(read_file(metrics));
  for (std::string line; std::getline(lines, line);) {
    const auto value = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    const auto number = [&value](const char* key) { return value.contains(key) && value[key].is_number(); };
    if (!value.is_object() || !number("loss") || !number("grad_norm") || !number("step")) continue;
    if (!value["step"].is_number_integer()) continue;
    numbers[value["step"].get<int64_t>()] = {value["loss"].get<double>(), value["grad_norm"].get<double>()};
  }
  return numbers;
}

DrillRun run_launch(const std::vector<std::string>& argv, const std::filesystem::path& log,
                    const std::function<bool()>& kill_when) {
  DrillRun run;
  LineWriter output(log);
  ChildProcess child(Command{argv, {}});
  ExitStatus status;
  const auto take = [&] {
    std::vector<std::string> lines;
    child.read_lines(lines);
    for (std::string& line : lines) {
      output.line(line);
      const bool ours = line.starts_with(kOurs), warns = line.starts_with(std::string(kOurs) + "warning");
      if (ours && !warns) run.error = line.substr(kOurs.size());
      if (!ours && !run.error.empty()) run.error += "\n" + line;  // an error may have several lines
      run.last_lines.push_back(std::move(line));
    }
    if (run.last_lines.size() > kKeptLines)
      run.last_lines.erase(run.last_lines.begin(), run.last_lines.end() - kKeptLines);
  };
  while (!child.try_wait(status)) {
    take();
    if (kill_when && !run.killed && kill_when()) run.killed = kill_a_rank(child.pid());
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  take();
  run.exit_code = status.exited ? status.code : 128 + status.code;
  return run;
}

}  // namespace trainctl
