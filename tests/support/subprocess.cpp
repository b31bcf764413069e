// tests/support/subprocess.cpp -- fork, exec and poll for tests.
#include "support/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

namespace trainctl::testing {
namespace {

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::vector<std::string> environment_of(const SubprocessOptions& options) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    bool dropped = text.starts_with("SLURM_") || text.starts_with("OMPI_") || text.starts_with("NO_COLOR=");
    for (const auto& [key, value] : options.environment) dropped = dropped || text.starts_with(key + "=");
    if (!dropped) all.push_back(text);
  }
  for (const auto& [key, value] : options.environment)
    if (value) all.push_back(key + "=" + *value);
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  for (std::string& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

bool read_some(int& fd, std::string& into) {
  char buffer[8192];
  const ssize_t got = ::read(fd, buffer, sizeof buffer);
  if (got > 0) {
    into.append(buffer, static_cast<size_t>(got));
    return true;
  }
  ::close(fd);
  fd = -1;
  return false;
}

}  // namespace

Subprocess::Subprocess(const std::vector<std::string>& argv, const SubprocessOptions& options)
    : options_(options), begin_s_(now_s()) {
  std::vector<std::string> words = argv, environment = environment_of(options);
  const std::vector<char*> argv_pointers = pointers(words), environment_pointers = pointers(environment);
  int out[2], err[2];
  if (::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(err, O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
  pid_ = ::fork();
  if (pid_ == 0) {
    ::setpgid(0, 0);
    if (!options.directory.empty() && ::chdir(options.directory.c_str()) != 0) ::_exit(126);
    ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
    ::dup2(out[1], STDOUT_FILENO);
    ::dup2(err[1], STDERR_FILENO);
    ::execvpe(argv_pointers[0], argv_pointers.data(), environment_pointers.data());
    ::_exit(127);
  }
  if (pid_ < 0) throw std::runtime_error("fork failed");
  ::setpgid(pid_, pid_);
  ::close(out[1]);
  ::close(err[1]);
  out_fd_ = out[0];
  err_fd_ = err[0];
}

Subprocess::~Subprocess() {
  if (!reaped_) {
    ::kill(-pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  if (out_fd_ >= 0) ::close(out_fd_);
  if (err_fd_ >= 0) ::close(err_fd_);
}

void Subprocess::signal(int number) const { ::kill(pid_, number); }

bool Subprocess::pump(int wait_ms) {
  pollfd fds[2] = {{out_fd_, POLLIN, 0}, {err_fd_, POLLIN, 0}};  // poll passes over negative descriptors
  if (::poll(fds, 2, wait_ms) > 0) {
    if (out_fd_ >= 0 && fds[0].revents != 0) read_some(out_fd_, result_.out);
    if (err_fd_ >= 0 && fds[1].revents != 0) read_some(err_fd_, result_.err);
  }
  return out_fd_ >= 0 || err_fd_ >= 0;
}

bool Subprocess::wait_for_output(const std::string& text, double limit_s) {
  const double end = now_s() + limit_s;
  while (result_.out.find(text) == std::string::npos) {
    if (now_s() > end || !pump(50)) return result_.out.find(text) != std::string::npos;
  }
  return true;
}

SubprocessResult Subprocess::wait() {
  int status = 0;
  while (!reaped_) {
    pump(20);
    if (::waitpid(pid_, &status, WNOHANG) == pid_) {
      reaped_ = true;
    } else if (now_s() - begin_s_ > options_.timeout_s) {
      result_.timed_out = true;
      ::kill(-pid_, SIGKILL);
      ::waitpid(pid_, &status, 0);
      reaped_ = true;
    }
  }
  result_.seconds = now_s() - begin_s_;
  // What is in the pipes; a grandchild that still holds them open does not delay this.
  for (int quiet = 0; quiet < 2 && (out_fd_ >= 0 || err_fd_ >= 0);) {
    const size_t before = result_.out.size() + result_.err.size();
    pump(20);
    if (result_.out.size() + result_.err.size() == before) ++quiet;
  }
  result_.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return result_;
}

SubprocessResult run(const std::vector<std::string>& argv, const SubprocessOptions& options) {
  return Subprocess(argv, options).wait();
}

std::string program(const std::string& name) {
  const char* folder = std::getenv("TRAINCTL_BIN");
  if (folder == nullptr) throw std::runtime_error("set TRAINCTL_BIN to the folder of the programs (ctest does)");
  return std::string(folder) + "/" + name;
}

std::string source_path(const std::string& relative) {
  const char* root = std::getenv("TRAINCTL_SOURCE");
  if (root == nullptr) throw std::runtime_error("set TRAINCTL_SOURCE to the source root (ctest does)");
  return std::string(root) + "/" + relative;
}

bool is_alive(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string stat;
  if (!std::getline(in, stat)) return false;
  const size_t close = stat.rfind(')');
  return close != std::string::npos && close + 2 < stat.size() && stat[close + 2] != 'Z';
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "trainctl-test-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TemporaryFolder::file(const std::string& name, const std::string& content) const {
  const std::filesystem::path path = path_ / name;
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << content;
  return path.string();
}

}  // namespace trainctl::testing
