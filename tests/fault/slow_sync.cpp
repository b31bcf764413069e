// tests/fault/slow_sync.cpp -- preloaded into a worker: its disk takes long to sync the files of one rank.
// SLOW_SYNC is "PART SECONDS": fdatasync of a file whose path contains PART sleeps so long first.
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <sstream>
#include <string>
#include <thread>

namespace {

double delay_of(int fd) {
  const char* asked = std::getenv("SLOW_SYNC");
  if (asked == nullptr) return 0;
  std::string part;
  double seconds = 0;
  std::istringstream(asked) >> part >> seconds;
  char path[4096] = {};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  return ::readlink(link.c_str(), path, sizeof path - 1) > 0 && std::string(path).find(part) != std::string::npos
             ? seconds
             : 0;
}

}  // namespace

extern "C" int fdatasync(int fd) {
  std::this_thread::sleep_for(std::chrono::duration<double>(delay_of(fd)));
  return static_cast<int>(::syscall(SYS_fdatasync, fd));
}
