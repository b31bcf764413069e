// lib/trainer/rank_report.cpp -- see the header.
#include "trainer/rank_report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>

#include "base/atomic_file.h"
#include "base/file_error.h"
#include "checkpoint/admission.h"

namespace trainctl {

std::string host_name() {
  std::array<char, 256> buffer{};
  return gethostname(buffer.data(), buffer.size() - 1) == 0 ? std::string(buffer.data()) : std::string("unknown host");
}

RankFailure failure_of(const std::exception& error, int64_t rank, const Recorder* recorder) {
  RankFailure f;
  f.rank = rank;
  f.host = host_name();
  f.pid = getpid();
  f.kind = std::string(name(ErrorKind::internal));
  f.message = error.what();
  f.time_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  if (recorder) {
    f.step = recorder->step();
    f.operation = recorder->place();
    for (const OperationRecord& r : recorder->recent(8)) f.recent.push_back(describe(r));
  }
  if (const auto* known = dynamic_cast<const Error*>(&error)) {
    f.kind = std::string(name(known->kind()));
    if (!known->where().empty()) f.operation = known->where();
  } else if (const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&error)) {
    const Error words = file_error(*file);
    f.kind = std::string(name(words.kind()));
    f.message = words.what();
  } else if (dynamic_cast<const std::bad_alloc*>(&error)) {
    f.kind = std::string(name(ErrorKind::memory));
    f.message = "out of host memory; lower micro_batch_size or the ranks on this host";
  }
  return f;
}

void report_failure(const RankFailure& failure, const RunPaths& paths) {
  const auto save = [&] {
    make_directories(paths.errors());
    save_rank_failure(failure, paths.rank_error(failure.rank));
  };
  try {
    try {
      save();
    } catch (const Error&) {
      if (!give_up_ballast(paths.checkpoints())) throw;
      save();
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "trainctl_worker: rank {}: its report could not be written: {}\n", failure.rank, error.what());
    fmt::print(stderr, "{}\n", line_of(failure));
  }
}

}  // namespace trainctl
