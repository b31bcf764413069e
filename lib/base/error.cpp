// lib/base/error.cpp -- names and exit codes of error kinds, and the exception itself.
#include "base/error.h"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace trainctl {
namespace {

struct KindEntry {
  ErrorKind kind;
  std::string_view name;
  int exit_code;
};

constexpr std::array<KindEntry, 12> kKinds = {{{ErrorKind::usage, "usage", 2},
                                               {ErrorKind::config, "config", 2},
                                               {ErrorKind::plan, "plan", 2},
                                               {ErrorKind::input, "input", 2},
                                               {ErrorKind::environment, "environment", 3},
                                               {ErrorKind::comm, "comm", 4},
                                               {ErrorKind::numeric, "numeric", 4},
                                               {ErrorKind::memory, "memory", 4},
                                               {ErrorKind::checkpoint, "checkpoint", 5},
                                               {ErrorKind::hang, "hang", 4},
                                               {ErrorKind::rank_failed, "rank_failed", 4},
                                               {ErrorKind::internal, "internal", 4}}};

const KindEntry& entry(ErrorKind kind) {
  for (const KindEntry& e : kKinds)
    if (e.kind == kind) return e;
  return kKinds.back();
}

}  // namespace

std::string_view name(ErrorKind kind) { return entry(kind).name; }

ErrorKind error_kind_from_name(std::string_view text) {
  for (const KindEntry& e : kKinds)
    if (e.name == text) return e.kind;
  return ErrorKind::internal;
}

int exit_code(ErrorKind kind) { return entry(kind).exit_code; }

Error::Error(ErrorKind kind, const std::string& message, std::source_location site)
    : std::runtime_error(message), kind_(kind), site_(site) {}

std::string Error::site() const {
  std::string_view file = site_.file_name();
  // From the source root on, whatever folder the build ran in.
  for (const std::string_view root : {"/lib/", "/apps/", "/kernels/", "/tests/"})
    if (const size_t at = file.rfind(root); at != std::string_view::npos) {
      file = file.substr(at + 1);
      break;
    }
  return fmt::format("{}:{}", file, site_.line());
}

Error& Error::at_rank(int rank) {
  if (rank_ < 0) rank_ = rank;
  return *this;
}

Error& Error::at(std::string where) {
  if (where_.empty()) where_ = std::move(where);
  return *this;
}

void fail(ErrorKind kind, const std::string& message, std::source_location site) { throw Error(kind, message, site); }

}  // namespace trainctl
