// lib/launch/process_tree.cpp -- reads /proc/PID/stat and /proc/PID/environ.
#include "launch/process_tree.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>

namespace trainctl {
namespace {

std::string slurp(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream all;
  all << in.rdbuf();  // unlike an iterator it does not throw for a process that ends meanwhile
  return all.str();
}

bool to_number(std::string_view text, int64_t& value) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && stop == text.data() + text.size();
}

// "PID (name) STATE PPID ..."; the name may hold anything, also ')'.
bool parse_stat(const std::string& stat, ProcessInfo& info) {
  const size_t close = stat.rfind(')');
  if (close == std::string::npos || close + 4 >= stat.size()) return false;
  info.state = stat[close + 2];
  const size_t begin = close + 4;
  int64_t parent = 0;
  if (!to_number(std::string_view(stat).substr(begin, stat.find(' ', begin) - begin), parent)) return false;
  info.parent = static_cast<pid_t>(parent);
  return true;
}

int64_t rank_of(const std::filesystem::path& process) {
  const std::string environment = slurp(process / "environ");
  for (const std::string_view key : {"OMPI_COMM_WORLD_RANK=", "SLURM_PROCID="})
    for (size_t at = 0; at < environment.size();) {
      const size_t end = std::min(environment.find('\0', at), environment.size());
      const std::string_view entry = std::string_view(environment).substr(at, end - at);
      int64_t rank = 0;
      if (entry.starts_with(key) && to_number(entry.substr(key.size()), rank)) return rank;
      at = end + 1;
    }
  return -1;
}

}  // namespace

std::vector<ProcessInfo> descendants() {
  std::vector<ProcessInfo> all;
  std::error_code ignored;
  const std::filesystem::directory_iterator end;
  for (std::filesystem::directory_iterator entry("/proc", ignored); !ignored && entry != end;
       entry.increment(ignored)) {
    int64_t pid = 0;
    ProcessInfo info;
    const std::filesystem::path& path = entry->path();
    if (!to_number(path.filename().string(), pid) || !parse_stat(slurp(path / "stat"), info)) continue;
    info.pid = static_cast<pid_t>(pid);
    all.push_back(info);
  }
  std::set<pid_t> family = {::getpid()};
  std::vector<ProcessInfo> result;
  for (bool grown = true; grown;) {
    grown = false;
    for (ProcessInfo& info : all)
      if (family.count(info.parent) != 0 && family.insert(info.pid).second) {
        info.rank = rank_of("/proc/" + std::to_string(info.pid));
        result.push_back(info);
        grown = true;
      }
  }
  return result;
}

void adopt_orphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

int signal_descendants(int signal) {
  int count = 0;
  for (const ProcessInfo& info : descendants()) {
    if (info.state == 'Z') continue;
    ::kill(info.pid, signal);
    ++count;
  }
  return count;
}

bool kill_descendants(double limit_s) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(limit_s);
  for (;;) {
    const int alive = signal_descendants(SIGKILL);
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    if (alive == 0) return true;
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace trainctl
