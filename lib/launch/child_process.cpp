// lib/launch/child_process.cpp -- fork, exec, pipes.
#include "launch/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <system_error>

#include "base/error.h"

namespace trainctl {
namespace {

constexpr size_t kLongestLine = 16384;

// Between fork and exec: only calls that are safe there. Never returns.
[[noreturn]] void become(char* const* argv, char* const* environment, pid_t parent, int output, int report) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(127);  // the parent died before the line above
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int empty = ::open("/dev/null", O_RDONLY);
  if (empty >= 0) ::dup2(empty, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  ::execvpe(argv[0], argv, environment);
  const int code = errno;
  const ssize_t told = ::write(report, &code, sizeof code);
  ::_exit(told == sizeof code ? 127 : 126);
}

std::vector<std::string> full_environment(const Command& command) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    bool replaced = false;
    for (const auto& [key, value] : command.environment) replaced = replaced || text.starts_with(key + "=");
    if (!replaced) all.push_back(text);
  }
  for (const auto& [key, value] : command.environment) all.push_back(key + "=" + value);
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  for (std::string& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace

ChildProcess::ChildProcess(const Command& command) {
  std::vector<std::string> argv = command.argv, environment = full_environment(command);
  const std::vector<char*> argv_pointers = pointers(argv), environment_pointers = pointers(environment);
  int output[2] = {-1, -1}, report[2] = {-1, -1};
  if (::pipe2(output, O_CLOEXEC) != 0 || ::pipe2(report, O_CLOEXEC) != 0)
    fail(ErrorKind::environment, "cannot make a pipe: " + std::generic_category().message(errno));
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) become(argv_pointers.data(), environment_pointers.data(), parent, output[1], report[1]);
  const int fork_error = errno;
  ::close(output[1]);
  ::close(report[1]);
  output_ = output[0];
  ::fcntl(output_, F_SETFL, O_NONBLOCK);
  int exec_error = 0;
  const ssize_t got = pid_ > 0 ? ::read(report[0], &exec_error, sizeof exec_error) : 0;
  ::close(report[0]);
  if (pid_ > 0 && got != sizeof exec_error) {
    ::setpgid(pid_, pid_);  // done by the child too; whoever comes first
    return;
  }
  ::close(output_);
  if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
  fail(ErrorKind::environment, fmt::format("cannot start {}: {}", argv[0],
                                           std::generic_category().message(pid_ > 0 ? exec_error : fork_error)));
}

ChildProcess::~ChildProcess() {
  ExitStatus status;
  if (!try_wait(status)) {
    signal_group(SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ::close(output_);
}

bool ChildProcess::read_lines(std::vector<std::string>& lines) {
  char buffer[8192];
  for (;;) {
    const ssize_t got = ::read(output_, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN;
    if (got == 0) {
      if (!partial_.empty()) lines.push_back(std::exchange(partial_, {}));
      return false;
    }
    for (ssize_t i = 0; i < got; ++i) {
      if (buffer[i] != '\n' && partial_.size() < kLongestLine) {
        partial_ += buffer[i];
        continue;
      }
      lines.push_back(std::exchange(partial_, {}));
      if (buffer[i] != '\n') partial_ += buffer[i];
    }
  }
}

bool ChildProcess::try_wait(ExitStatus& status) {
  if (!ended_) {
    int raw = 0;
    const pid_t got = ::waitpid(pid_, &raw, WNOHANG);
    if (got == 0 || (got < 0 && errno == EINTR)) return false;
    ended_ = true;
    status_ = WIFSIGNALED(raw) ? ExitStatus{false, WTERMSIG(raw)} : ExitStatus{true, WEXITSTATUS(raw)};
  }
  status = status_;
  return true;
}

void ChildProcess::signal_group(int signal) const {
  if (!ended_) ::kill(-pid_, signal);
}

}  // namespace trainctl
