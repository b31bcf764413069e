// lib/base/error.h -- the one exception type, its kinds, and the exit code each kind ends a program with.
#pragma once

#include <cstdint>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

namespace trainctl {

enum class ErrorKind : uint8_t {
  usage,        // the command line is wrong
  config,       // a recipe or topology file is wrong
  plan,         // the request is well formed but cannot run: layout, memory
  input,        // a data or token file is wrong
  environment,  // something outside is missing: mpirun, a device, disk space
  comm,         // a collective or a message failed, or ranks disagree
  numeric,      // a non-finite loss, gradient or norm
  memory,       // an allocation failed
  checkpoint,   // a checkpoint is unusable, refused or could not be found
  hang,         // a rank or an operation made no progress within watchdog_s
  rank_failed,  // another rank, or the whole job, ended badly
  internal,     // a broken promise of our own
};

std::string_view name(ErrorKind kind);
ErrorKind error_kind_from_name(std::string_view name);  // unknown names give `internal`

// 2 the request is wrong, 3 the environment is wrong, 4 a rank failed, 5 no usable checkpoint.
int exit_code(ErrorKind kind);

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message, std::source_location site = std::source_location::current());

  ErrorKind kind() const { return kind_; }
  int rank() const { return rank_; }  // -1: not known
  const std::string& where() const {
    return where_;
  }                          // operation and place in the run, e.g. "step 4, layers.1 attention"
  std::string site() const;  // file:line of the throw

  // Adds what a lower layer could not know. The first writer wins: the innermost description is the precise one.
  Error& at_rank(int rank);
  Error& at(std::string where);

 private:
  ErrorKind kind_;
  int rank_ = -1;
  std::string where_;
  std::source_location site_;
};

[[noreturn]] void fail(ErrorKind kind, const std::string& message,
                       std::source_location site = std::source_location::current());

// For our own bugs; stays in release builds. Throws Error{internal}.
inline void ensure(bool condition, std::string_view text, std::source_location site = std::source_location::current()) {
  if (!condition) [[unlikely]]
    fail(ErrorKind::internal, std::string(text), site);
}

}  // namespace trainctl
