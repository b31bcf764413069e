// lib/launch/child_process.h -- one child in its own process group that does not outlive this process, output in lines.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "launch/command.h"

namespace trainctl {

// How a process ended.
struct ExitStatus {
  bool exited = true;  // false: killed by a signal
  int code = 0;        // exit code, or signal number
};

class ChildProcess {
 public:
  // Starts the command: stdin is empty, stdout and stderr are read here, the kernel sends it SIGTERM when this process
  // dies, signals are unblocked. Throws Error{environment} when the program cannot be started.
  explicit ChildProcess(const Command& command);
  ~ChildProcess();  // SIGKILL to its group when it still runs
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  int output_fd() const { return output_; }  // for poll()

  // Appends what it has printed, cut into lines; never waits. False once both streams are closed.
  bool read_lines(std::vector<std::string>& lines);

  // Reaps it when it has ended; never waits. True when `status` was set, also on later calls.
  bool try_wait(ExitStatus& status);

  void signal_group(int signal) const;

 private:
  pid_t pid_ = -1;
  int output_ = -1;
  bool ended_ = false;
  ExitStatus status_;
  std::string partial_;
};

}  // namespace trainctl
