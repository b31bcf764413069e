// lib/checkpoint/uring_absent.cpp -- in builds without liburing: no io_uring, and why.
#include "checkpoint/io_queue.h"

namespace trainctl {

std::unique_ptr<IoQueue> make_uring_queue(int, std::string& why_not) {
  why_not = "this build has no io_uring (liburing-dev was not there)";
  return nullptr;
}

}  // namespace trainctl
