// lib/checkpoint/readback.cpp -- verdicts are files, as receipts are: no messages from the writer threads.
#include "checkpoint/readback.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <optional>
#include <system_error>
#include <vector>

#include "base/atomic_file.h"
#include "base/error.h"
#include "checkpoint/markers.h"
#include "checkpoint/media_reader.h"
#include "checkpoint/posix_io.h"
#include "checkpoint/retention.h"

namespace trainctl {
namespace fs = std::filesystem;
namespace {

// Below .staging, so that whatever a crash leaves of it is swept with it.
fs::path verdict_folder(const SaveJob& job) { return job.root / kStagingName / ("readback." + job.attempt); }

fs::path verdict_path(const SaveJob& job, int64_t rank) {
  return verdict_folder(job) / fmt::format("rank-{:05}", rank);
}

void stop_if_cancelled(const SaveJob& job) {
  if (job.cancelled && *job.cancelled) fail(ErrorKind::checkpoint, "the run is ending");
}

// This rank's files, as its receipt lists them.
Verdict own_verdict(const SaveJob& job) {
  Verdict verdict{job.attempt, job.rank, true, false, "", ""};
  bool direct = true;
  try {
    const fs::path path = job.final_folder() / receipt_path(job.rank);
    const Receipt receipt = receipt_from_text(read_small_file(path, kMaxRecordBytes), path.string());
    for (const FileRecord& file : receipt.files) {
      const MediaCheck check = check_media(job.final_folder(), file, [&job](int64_t) { stop_if_cancelled(job); });
      direct = direct && check.direct;
      for (const WrongBlock& w : check.wrong)
        verdict.reason += fmt::format("{}{}", verdict.reason.empty() ? "" : "; ", describe(file, w));
      verdict.damaged = verdict.damaged || !check.wrong.empty();
    }
  } catch (const Error& e) {
    stop_if_cancelled(job);
    if (!verdict.damaged) verdict.reason = e.what();  // what is proven is told alone
  }
  verdict.ok = verdict.reason.empty();
  verdict.how = way_of(direct);
  return verdict;
}

std::optional<Verdict> try_read(const fs::path& path) {
  if (regular_file_bytes(path) < 0) return std::nullopt;
  return verdict_from_text(read_small_file(path, kMaxRecordBytes), path.string());
}

}  // namespace

std::string open_readback(const SaveJob& job) noexcept {
  const fs::path folder = verdict_folder(job);
  if (::mkdir(folder.c_str(), 0777) == 0) return "";
  return fmt::format("cannot create {}: {}", folder.string(), std::generic_category().message(errno));
}

void close_readback(const SaveJob& job) noexcept {
  try {  // the name goes, also where the folder cannot be removed
    const fs::path folder = verdict_folder(job), over = folder.string() + ".over";
    remove_tree(::rename(folder.c_str(), over.c_str()) == 0 ? over : folder);
  } catch (const std::exception&) {  // swept with the next save
  }
}

Readback read_back(const SaveJob& job, const std::string& manifest_sha256, const std::string& closed) {
  Readback result;
  try {
    if (!closed.empty()) fail(ErrorKind::environment, fmt::format("rank 0: {}", closed));
    std::vector<std::optional<Verdict>> verdicts(static_cast<size_t>(job.world));
    verdicts[0] = own_verdict(job);
    size_t have = 1;
    for (PatientWait wait(job.deadline_s); have < verdicts.size(); wait.sleep()) {
      for (size_t r = 0; r < verdicts.size(); ++r)
        if (!verdicts[r] && (verdicts[r] = try_read(verdict_path(job, static_cast<int64_t>(r))))) ++have;
      if (have == verdicts.size()) break;
      stop_if_cancelled(job);
      if (wait.expired())
        fail(ErrorKind::checkpoint,
             fmt::format("{} of {} ranks have read their files back after {} s (checkpoint.deadline_s)", have,
                         verdicts.size(), job.deadline_s));
    }
    bool direct = true;
    std::string unread;
    for (const std::optional<Verdict>& v : verdicts) {
      direct = direct && v->how == way_of(true);
      std::string& list = v->damaged ? result.damage : unread;
      if (!v->ok) list += fmt::format("{}rank {}: {}", list.empty() ? "" : "; ", v->rank, v->reason);
    }
    // What could not be read is not thereby bad: the next reader tries again, and the state stays as good as unproven.
    if (result.damage.empty() && !unread.empty()) fail(ErrorKind::environment, unread);
    if (result.damage.empty())
      mark_verified(job.final_folder(), manifest_sha256, fmt::format("read back after the save, {}", way_of(direct)));
    else
      mark_unusable(job.final_folder(), "the read-back after the save found damage: " + result.damage, "readback", "");
  } catch (const std::exception& e) {
    result.note = fmt::format("not verified: {}", e.what());
  }
  close_readback(job);
  return result;
}

void read_back_own(const SaveJob& job) {
  const auto collected = [&job] {
    std::error_code ignored;
    const fs::file_type type = fs::status(verdict_folder(job), ignored).type();
    return type == fs::file_type::directory || type == fs::file_type::none;  // none: it could not be looked at
  };
  if (!collected()) return;
  try {
    put_small_file(verdict_path(job, job.rank), to_text(own_verdict(job)));
  } catch (const Error&) {  // rank 0 has given up, or learns from the deadline that this verdict is missing
  }
  for (PatientWait wait(job.deadline_s + 60); collected(); wait.sleep()) {
    stop_if_cancelled(job);
    if (wait.expired()) break;
  }
  const fs::path mark = job.final_folder() / kUnusableName;
  if (regular_file_bytes(mark) >= 0)
    fail(ErrorKind::checkpoint, unusable_from_text(read_small_file(mark, kMaxRecordBytes), mark.string()).reason);
}

}  // namespace trainctl
