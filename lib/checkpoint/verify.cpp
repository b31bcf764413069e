// lib/checkpoint/verify.cpp -- proving a checkpoint whole.
#include "checkpoint/verify.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/file_error.h"
#include "base/hash.h"
#include "base/json_node.h"
#include "base/units.h"
#include "checkpoint/markers.h"
#include "checkpoint/media_reader.h"
#include "checkpoint/posix_io.h"
#include "checkpoint/retention.h"
#include "checkpoint/safetensors.h"

namespace trainctl {
namespace fs = std::filesystem;
namespace {

// The manifest as far as it can be read, when the folder was judged damaged or marked: the rest is still worth
// checking.
std::optional<Manifest> readable_manifest(const fs::path& folder) {
  try {
    return read_manifest(folder);
  } catch (const Error&) {
    return std::nullopt;
  }
}

struct Expected {
  const TensorRecord* tensor;
  const ChunkRecord* chunk;
};

void check_header(const fs::path& folder, const FileRecord& file, const std::vector<Expected>& expected,
                  VerifyReport& report) {
  const SafetensorsHeader header = read_safetensors_header(folder / file.path);
  const auto fault = [&](const std::string& what) { report.faults.push_back(file.path + ": " + what); };
  if (header.header_bytes != file.header_bytes)
    fault(fmt::format("its header has {} bytes, the manifest expects {}", header.header_bytes, file.header_bytes));
  std::map<std::string_view, const SafetensorsTensor*> by_name;
  for (const SafetensorsTensor& t : header.tensors) by_name[t.name] = &t;
  for (const auto& [tensor, chunk] : expected) {
    const auto found = by_name.find(chunk->key);
    if (found == by_name.end()) {
      fault(fmt::format("the tensor {} is missing", in_quotes(chunk->key)));
      continue;
    }
    const SafetensorsTensor& t = *found->second;
    bool equal = t.dtype == safetensors_dtype(tensor->dtype) && header.header_bytes + t.begin == chunk->byte_offset &&
                 t.bytes() == chunk->byte_length && t.shape.size() == static_cast<size_t>(chunk->box.extent.rank());
    for (int d = 0; equal && d < chunk->box.extent.rank(); ++d)
      equal = t.shape[static_cast<size_t>(d)] == chunk->box.extent[d];
    if (!equal) fault(fmt::format("the tensor {} is not where or what the manifest says", in_quotes(chunk->key)));
    by_name.erase(found);
  }
  for (const auto& [name, t] : by_name) fault(fmt::format("the tensor {} is not in the manifest", in_quotes(name)));
}

void check_blocks(const fs::path& folder, const FileRecord& file, int64_t before, int64_t total,
                  const Progress& progress, VerifyReport& report) {
  const MediaCheck check = check_media(folder, file, [&](int64_t bytes) {
    ++report.blocks;
    report.bytes += bytes;
    before += bytes;
    if (progress) progress(before, total);
  });
  if (!check.direct) report.direct = false;
  for (const WrongBlock& w : check.wrong) {
    report.faults.push_back(describe(file, w));
    report.wrong.push_back(report.faults.back());
  }
  if (!check.unread.empty()) report.faults.push_back(check.unread);
}

void note_strangers(const fs::path& folder, const Manifest& manifest, VerifyReport& report) {
  std::set<std::string> known = {std::string(kManifestName), std::string(kCommittedName), std::string(kUnusableName),
                                 std::string(kPinnedName),   std::string(kVerifiedName),  std::string(kDrilledName),
                                 std::string(kAttemptName)};
  for (const FileRecord& f : manifest.files) known.insert(f.path);
  for (const ReceiptRecord& r : manifest.receipts) known.insert(r.path);
  for (const MetaRecord& f : manifest.meta) known.insert(f.path);
  std::error_code code;
  for (fs::recursive_directory_iterator it(folder, code), end; !code && it != end; it.increment(code)) {
    const std::string relative = it->path().lexically_relative(folder).string();
    if (it->symlink_status().type() != fs::file_type::directory && known.count(relative) == 0)
      report.notes.push_back(relative + " does not belong to this checkpoint");
  }
}

}  // namespace

VerifyReport verify_checkpoint(const fs::path& folder, bool full, const Progress& progress) {
  VerifyReport report;
  report.info = inspect_folder(folder);
  report.notes = report.info.notes;
  if (report.info.state != CheckpointState::usable) report.faults.push_back(report.info.reason);
  if (!report.info.beneath.empty()) report.faults.push_back(report.info.beneath);
  const std::optional<Manifest> manifest = readable_manifest(folder);
  if (!manifest) return report;
  std::map<std::string, std::vector<Expected>> by_file;
  for (const TensorRecord& t : manifest->tensors)
    for (const ChunkRecord& c : t.chunks) by_file[c.file].push_back({&t, &c});
  int64_t total = 0, before = 0;
  for (const FileRecord& f : manifest->files) total += f.bytes;
  for (const FileRecord& f : manifest->files) {
    try {
      const int64_t actual = regular_file_bytes(folder / f.path);
      if (actual != f.bytes)
        fail(ErrorKind::checkpoint, actual < 0 ? fmt::format("{} is missing (or no regular file)", f.path)
                                               : fmt::format("{} has {} bytes, {} expected", f.path, actual, f.bytes));
      check_header(folder, f, by_file[f.path], report);
      if (full) check_blocks(folder, f, before, total, progress, report);
    } catch (const Error& e) {
      if (std::find(report.faults.begin(), report.faults.end(), e.what()) == report.faults.end())
        report.faults.emplace_back(e.what());
    }
    before += f.bytes;
  }
  note_strangers(folder, *manifest, report);
  return report;
}

VerifyReport prove_checkpoint(const fs::path& folder, const Progress& progress) {
  VerifyReport report = verify_checkpoint(folder, true, progress);
  try {
    if (report.whole()) {
      mark_verified(folder, report.info.manifest_sha256,
                    fmt::format("every block read back, {}", way_of(report.direct)));
    } else if (!report.wrong.empty() && !report.info.proven_damaged) {
      mark_unusable(folder,
                    report.wrong.front().substr(0, report.wrong.front().find(" has the digest")) + " is damaged",
                    "verify --full", fmt::format("{}", fmt::join(report.wrong, "; ")));
    } else {
      return report;
    }
    const std::vector<std::string> faults = std::move(report.faults);
    report.info = inspect_folder(folder);
    report.faults = faults;
  } catch (const Error& e) {
    report.notes.push_back(fmt::format("the verdict could not be written down: {}", e.what()));
  }
  return report;
}

UsableAgain mark_usable(const fs::path& folder, const Progress& progress) {
  const CheckpointInfo info = inspect_folder(folder);
  if (info.state != CheckpointState::unusable) return {};
  VerifyReport report = verify_checkpoint(folder, info.proven_damaged, progress);
  report.faults.erase(report.faults.begin());  // the mark
  const std::string looked =
      info.proven_damaged
          ? fmt::format("every block ({}, {}) was read and compared", report.blocks, human_bytes(report.bytes))
          : "markers, manifest, receipts, sizes and headers were looked at, not the blocks (verify --full does)";
  if (!report.whole())
    fail(ErrorKind::checkpoint,
         fmt::format("{} stays unusable ({}); {}, and it is not whole:\n  {}\nwhat to do: put back the files as they "
                     "were, from a copy, or go on from another checkpoint",
                     folder.string(), info.reason, looked, fmt::join(report.faults, "\n  ")));
  if (info.proven_damaged)  // before the mark goes: beside it VERIFIED says nothing
    mark_verified(folder, info.manifest_sha256, fmt::format("every block read back, {}", way_of(report.direct)));
  remove_unusable(folder);
  return {true, looked};
}

std::vector<fs::path> prove_what_stays(const fs::path& root, const RetentionPolicy& policy, const Progress& progress) {
  std::vector<fs::path> damaged;
  for (;;) {
    const std::vector<fs::path> going = prune_checkpoints(root, policy, true);
    fs::path newest;
    bool proven = false, loses = false;
    for (const CheckpointInfo& info : scan_checkpoints(root, Look::glance)) {
      if (info.state != CheckpointState::usable || info.kind != "training" || is_superseded(info)) continue;
      if (std::find(going.begin(), going.end(), info.folder) != going.end()) {
        loses = true;
      } else if (is_of_run(info.folder, policy) && inspect_folder(info.folder).state == CheckpointState::usable) {
        if (newest.empty()) newest = info.folder;
        proven = proven || info.verified;
      }
    }
    if (!loses || proven || newest.empty()) return damaged;
    const VerifyReport report = prove_checkpoint(newest, progress);
    if (report.whole()) return damaged;
    if (report.info.state == CheckpointState::usable)
      fail(ErrorKind::checkpoint,
           fmt::format("{} would be kept, and cannot be proven whole, so nothing is removed:\n  {}", newest.string(),
                       fmt::join(report.faults, "\n  ")));
    damaged.push_back(newest);
  }
}

Manifest read_manifest(const fs::path& folder) {
  const fs::path path = folder / kManifestName;
  return manifest_from_text(read_small_file(path, kMaxRecordBytes), path.string());
}

std::string unless_usable(const CheckpointInfo& info) {
  return info.state == CheckpointState::usable ? "" : info.reason;
}

ChosenCheckpoint choose_checkpoint(const fs::path& path, std::optional<int64_t> step, const WhyNot& why_not) {
  const std::string last = path.filename().string();
  const bool named_by_step = step_of_folder(last).has_value();
  if (last.starts_with("step"))
    if (const std::string why = why_no_folder(path); !why.empty())
      fail(ErrorKind::checkpoint,
           fmt::format("there is no checkpoint at {}{}; {}", path.string(),
                       why == "does not exist" ? "" : ": it " + why, what_is_there_instead(path)));
  if (is_checkpoint_folder(path) || named_by_step) {
    if (step && inspect_folder(path).step != *step)
      fail(ErrorKind::usage, fmt::format("{} is one checkpoint and not step {}", path.string(), *step));
    return {path, {}};
  }
  const fs::path root = checkpoint_root_of(path);
  const std::vector<CheckpointInfo> all = scan_checkpoints(root);
  ChosenCheckpoint chosen;
  for (const CheckpointInfo& info : all) {
    const std::string why = step ? std::string() : why_not(info);
    if (step ? info.step == *step : why.empty()) {
      chosen.folder = info.folder;
      return chosen;
    }
    if (!step) chosen.passed_over.push_back(fmt::format("{} ({}): {}", info.folder.string(), name(info.state), why));
  }
  fail(ErrorKind::checkpoint,
       fmt::format("{} has no {}; it has {}{}{}", root.string(),
                   step ? fmt::format("checkpoint of step {}", *step) : std::string("checkpoint that can be taken"),
                   steps_text(all), chosen.passed_over.empty() ? "" : "\n  ", fmt::join(chosen.passed_over, "\n  ")));
}

}  // namespace trainctl
