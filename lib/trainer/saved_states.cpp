// lib/trainer/saved_states.cpp -- see the header.
#include "trainer/saved_states.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/format.h"
#include "checkpoint/posix_io.h"

namespace trainctl {
namespace fs = std::filesystem;
namespace {

// Lines that are no events are passed over. A start at an earlier step left the checkpoints beyond it.
int64_t saved_by_events(const fs::path& file) {
  std::ifstream events(file, std::ios::binary);
  int64_t saved = 0;
  for (std::string line; std::getline(events, line);) {
    const nlohmann::json event = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!event.is_object() || !event.contains("step") || !event["step"].is_number_integer()) continue;
    const auto step = event["step"].get<int64_t>();
    const auto level = event.value("level", nlohmann::json());
    if (level == kStartEvent) saved = std::clamp<int64_t>(step, 0, saved);
    if (level == kSavedEvent) saved = std::max<int64_t>(step, 0);
  }
  return saved;
}

int64_t saved_by_latest(const fs::path& file) {
  try {
    if (regular_file_bytes(file) < 0) return 0;
    return std::max<int64_t>(0, latest_from_text(read_small_file(file, kMaxRecordBytes), file.string()).step);
  } catch (const Error&) {  // torn: it is only a hint
    return 0;
  }
}

}  // namespace

std::string text_of(const SaveOutcome& o) {
  if (!o.ok) return fmt::format("checkpoint of step {} {}: {}", o.step, o.skipped ? "skipped" : "failed", o.reason);
  return fmt::format("checkpoint of step {}: {} ({:.0f} ms stall, {:.2f} s in all{}){}", o.step, o.folder.string(),
                     o.staging_s * 1e3, o.total_s, o.io_path.empty() ? "" : "; " + o.io_path,
                     o.reason.empty() ? "" : "; " + o.reason);
}

SavedState newest_saved(const RunPaths& paths, const RunRecord& seen) {
  if (const int64_t step = saved_by_events(paths.events()); step > 0) return {step, paths.events().string()};
  if (seen.saved_step > 0) return {seen.saved_step, paths.launch().string()};
  const fs::path latest = paths.checkpoints() / kLatestName;
  if (const int64_t step = saved_by_latest(latest); step > 0) return {step, latest.string()};
  return {};
}

std::string lost_states(const RunPaths& paths, const RunRecord& seen) {
  const SavedState saved = newest_saved(paths, seen);
  if (saved.step == 0) return "";
  return fmt::format(
      "there is no checkpoint in {}, but the run saved one of step {} ({}): is the disk that holds them mounted, were "
      "they moved away?\nwhat to do: put them back, or name one elsewhere (--resume CHECKPOINT); to start afresh "
      "choose "
      "another run directory (--run-dir)",
      paths.checkpoints().string(), saved.step, saved.told_by);
}

std::string newer_than_found(const RunPaths& paths, const RunRecord& seen, const RestoreResult& found) {
  const SavedState saved = newest_saved(paths, seen);
  const fs::path folder = paths.checkpoints() / folder_name_of(saved.step);
  std::error_code unknown;
  if (saved.step <= found.step || fs::exists(fs::symlink_status(folder, unknown))) return "";
  for (const std::string& why : found.rejected)
    if (why.starts_with(folder.string() + ":")) return "";
  return fmt::format(
      "step {} was saved ({}) and is not there; the run continues from step {}. To go on from that one, "
      "stop, put {} back and launch again",
      saved.step, saved.told_by, found.step, folder.string());
}

std::vector<std::string> anew_remarks(const RunPaths& paths, const RunRecord& seen) {
  std::error_code absent;
  const auto bytes = fs::file_size(paths.metrics(), absent);
  const bool empty = absent || bytes == 0;
  if (empty && seen.last_step == 0) return {};
  std::vector<std::string> remarks = {"no checkpoint to continue from: training starts anew"};
  if (empty)
    remarks.push_back(fmt::format("the run had come to step {} ({}), and {} {}", seen.last_step,
                                  paths.launch().string(), paths.metrics().string(),
                                  absent ? "is not there" : "is empty"));
  return remarks;
}

}  // namespace trainctl
