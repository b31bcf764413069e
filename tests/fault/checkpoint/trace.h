// tests/fault/checkpoint/trace.h -- strace as an instrument: what a process asked of the kernel, and lies told to it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::testing {

struct TracedCall {
  int64_t thread = 0;
  std::string name, arguments, result;  // result: "3", "-1 ENOENT (...)"; "?" when the process ended in it
  int64_t number = 0;                   // 1, 2, ... by thread and name, in the order of entering
  size_t entered = 0, left = 0;         // lines of the log
};

// A log of `strace -f -o FILE`, in the order of entering.
std::vector<TracedCall> parse_trace(std::string_view log);

// "\x2f\x64" (strace -xx) between the first pair of quotes at or after `from`; where it ends goes to `end`.
std::string unescape_hex(std::string_view arguments, size_t from = 0, size_t* end = nullptr);

// Why processes cannot be traced here; "" when they can.
std::string tracing_refusal();

// strace -f with `options`, in front of `command`. (With --seccomp-bpf an injected SIGKILL would not arrive.)
std::vector<std::string> traced(std::vector<std::string> options, const std::vector<std::string>& command);

}  // namespace trainctl::testing
