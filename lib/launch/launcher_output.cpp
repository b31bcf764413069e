// lib/launch/launcher_output.cpp -- reads the messages of Open MPI 4 and Slurm.
#include "launch/launcher_output.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstring>
#include <regex>

namespace trainctl {
namespace {

std::optional<int64_t> to_rank(std::string_view digits) {
  int64_t rank = 0;
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  if (digits.empty() || error != std::errc() || stop != digits.data() + digits.size()) return std::nullopt;
  return rank;
}

LauncherVerdict read_mpirun(const std::string& text) {
  static const std::regex kSignal(
      R"(process rank (\d+) with PID \d+ on node (\S+)\s+exited on signal (\d+) \(([^)]*)\))");
  static const std::regex kExit(R"(Process name: \[\[\d+,\d+\],(\d+)\]\s+Exit code:\s+(\d+))");
  static const std::regex kAbort(R"(MPI_ABORT was invoked on rank (\d+)[\s\S]*?with errorcode (\d+))");
  static const std::regex kProblem(
      R"((There are not enough slots|unable to find the specified|could not access|was unable to|unable to reliably start|)"
      R"(ORTE has lost communication|ORTE was unable|All nodes which are allocated)[^\n]*)");
  LauncherVerdict verdict;
  std::smatch match;
  if (std::regex_search(text, match, kAbort)) {
    verdict.rank = std::stoll(match[1]);
    verdict.exit_code = std::stoi(match[2]);
  } else if (std::regex_search(text, match, kSignal)) {
    verdict.rank = std::stoll(match[1]);
    verdict.host = match[2];
    verdict.signal = std::stoi(match[3]);
    verdict.signal_name = match[4];
  } else if (std::regex_search(text, match, kExit)) {
    verdict.rank = std::stoll(match[1]);
    verdict.exit_code = std::stoi(match[2]);
  } else if (std::regex_search(text, match, kProblem)) {
    const size_t begin = text.rfind('\n', static_cast<size_t>(match.position()));
    verdict.launcher_problem = text.substr(begin == std::string::npos ? 0 : begin + 1, 400);
  }
  return verdict;
}

LauncherVerdict read_srun(const std::string& text) {
  static const std::regex kTask(
      R"(srun: error: ([^:\s]+): tasks? (\d+)[^:]*: (?:Exited with exit code (\d+)|([A-Za-z][^\n]*)))");
  static const std::regex kProblem(R"(srun: error: ([^\n]*))");
  constexpr std::array<std::pair<const char*, int>, 5> kSignals = {{{"Killed", SIGKILL},
                                                                    {"Segmentation fault", SIGSEGV},
                                                                    {"Aborted", SIGABRT},
                                                                    {"Bus error", SIGBUS},
                                                                    {"Terminated", SIGTERM}}};
  LauncherVerdict verdict;
  std::smatch match;
  if (std::regex_search(text, match, kTask)) {
    verdict.host = match[1];
    verdict.rank = std::stoll(match[2]);
    if (match[3].matched)
      verdict.exit_code = std::stoi(match[3]);
    else
      verdict.signal_name = match[4];
    for (const auto& [name, number] : kSignals)
      if (verdict.signal_name.starts_with(name)) verdict.signal = number;
  } else if (std::regex_search(text, match, kProblem)) {
    verdict.launcher_problem = match[1];
  }
  return verdict;
}

}  // namespace

TaggedLine untag(std::string_view line, std::string_view launcher) {
  if (launcher == "mpirun" && line.starts_with("[")) {
    const size_t comma = line.find(','), close = line.find(']'), colon = line.find(">:");
    if (comma < close && close < colon && colon != std::string_view::npos && line.substr(close, 4) == "]<st")
      if (const auto rank = to_rank(line.substr(comma + 1, close - comma - 1)))
        return {*rank, std::string(line.substr(colon + 2))};
  }
  if (launcher == "srun")
    if (const size_t colon = line.find(": "); colon != std::string_view::npos) {
      std::string_view digits = line.substr(0, colon);
      digits.remove_prefix(std::min(digits.find_first_not_of(' '), digits.size()));
      if (const auto rank = to_rank(digits)) return {*rank, std::string(line.substr(colon + 2))};
    }
  return {-1, std::string(line)};
}

TaggedLine LauncherOutput::add(std::string_view line) {
  TaggedLine tagged = untag(line, launcher_);
  std::deque<std::string>& kept = lines_[tagged.rank];
  kept.push_back(tagged.text);
  if (kept.size() > kKept) kept.pop_front();
  return tagged;
}

LauncherVerdict LauncherOutput::verdict() const {
  std::string text;
  for (const std::string& line : last_lines(-1)) text += line + "\n";
  if (launcher_ == "mpirun") return read_mpirun(text);
  if (launcher_ == "srun") return read_srun(text);
  return {};
}

std::vector<std::string> LauncherOutput::last_lines(int64_t rank) const {
  const auto at = lines_.find(rank);
  if (at == lines_.end()) return {};
  return {at->second.begin(), at->second.end()};
}

}  // namespace trainctl
