// lib/checkpoint/attempt.cpp -- a save's own description, written and read back.
#include "checkpoint/attempt.h"

#include <unistd.h>

#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json_node.h"
#include "checkpoint/posix_io.h"

namespace trainctl {
namespace fs = std::filesystem;

Manifest draft_of(const SaveJob& job) {
  Manifest m;
  m.kind = "intermediate";
  m.run_id = job.run_id;
  m.attempt = job.attempt;
  m.reason = job.reason;
  m.parent = job.parent;
  m.step = job.step;
  m.world = job.world;
  m.created_ns = wall_clock_ns();
  m.topology = job.topology;
  m.provenance = job.provenance;
  m.scalars = job.scalars;
  m.completeness = job.derived;
  for (const MetaFile& f : job.meta)
    m.meta.push_back({f.path, static_cast<int64_t>(f.content.size()), xxh128_hex(f.content.data(), f.content.size())});
  return m;
}

void open_attempt(const SaveJob& job) {
  const fs::path folder = job.staging_folder();
  for (const MetaFile& f : job.meta) {
    ensure(f.path.starts_with("meta/") && is_safe_relative_path(f.path),
           fmt::format("{} is no plain path below meta/", in_quotes(f.path)));
    const fs::path parent = (folder / f.path).parent_path();
    if (!fs::exists(parent)) make_directories(parent);
    write_file_atomically(folder / f.path, f.content);
    if (parent != folder / "meta") sync_directory(folder / "meta");
  }
  write_file_atomically(folder / kAttemptName, to_text(Attempt{this_process(), to_text(draft_of(job))}));
}

void drop_attempt_record(const fs::path& folder) noexcept { ::unlink((folder / kAttemptName).c_str()); }

LeftAttempt read_attempt(const fs::path& folder) {
  const fs::path record = folder / kAttemptName;
  const Attempt attempt = attempt_from_text(read_small_file(record, kMaxRecordBytes), record.string());
  const Manifest draft = manifest_from_text(attempt.draft, record.string() + ", draft");
  LeftAttempt left{attempt.owner, {}};
  SaveJob& job = left.job;
  job.run_id = draft.run_id;
  job.attempt = draft.attempt;
  job.reason = draft.reason;
  job.parent = draft.parent;
  job.step = draft.step;
  job.world = draft.world;
  job.topology = draft.topology;
  job.provenance = draft.provenance;
  job.scalars = draft.scalars;
  job.derived = draft.completeness;
  for (const MetaRecord& m : draft.meta) {
    std::string content = read_small_file(folder / m.path, kMaxRecordBytes);
    if (xxh128_hex(content.data(), content.size()) != m.xxh128)
      fail(ErrorKind::checkpoint,
           fmt::format("{} does not have the digest that {} expects", (folder / m.path).string(), kAttemptName));
    job.meta.push_back({m.path, std::move(content)});
  }
  return left;
}

}  // namespace trainctl
