// tests/support/subprocess.h -- runs programs in tests: arguments, environment, output, signals; nothing waits forever.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trainctl::testing {

struct SubprocessOptions {
  // Changes to the environment; an empty optional removes the variable. SLURM_* and OMPI_* of the caller never pass.
  std::vector<std::pair<std::string, std::optional<std::string>>> environment{};
  std::filesystem::path directory{};  // working directory; empty: the caller's
  double timeout_s = 30;              // then SIGKILL to its process group
};

struct SubprocessResult {
  int exit_code = -1;  // 128 + signal when killed
  bool timed_out = false;
  double seconds = 0;
  std::string out, err;
};

class Subprocess {
 public:
  Subprocess(const std::vector<std::string>& argv, const SubprocessOptions& options = {});
  ~Subprocess();  // SIGKILL to its process group when it still runs
  Subprocess(const Subprocess&) = delete;
  Subprocess& operator=(const Subprocess&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;  // to the process alone
  SubprocessResult wait();        // reads to the end

  // Reads until stdout contains `text`; false when it ends first or `limit_s` passes.
  bool wait_for_output(const std::string& text, double limit_s);

 private:
  bool pump(int wait_ms);  // false: both streams are at their end
  SubprocessOptions options_;
  pid_t pid_ = -1;
  int out_fd_ = -1, err_fd_ = -1;
  double begin_s_ = 0;
  bool reaped_ = false;
  SubprocessResult result_;
};

SubprocessResult run(const std::vector<std::string>& argv, const SubprocessOptions& options = {});

std::string program(const std::string& name);          // in the folder that TRAINCTL_BIN names
std::string source_path(const std::string& relative);  // under TRAINCTL_SOURCE
bool is_alive(pid_t pid);                              // exists and is no zombie

// A folder that is removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::string file(const std::string& name, const std::string& content) const;  // writes it, returns its path

 private:
  std::filesystem::path path_;
};

}  // namespace trainctl::testing
