// lib/checkpoint/commit.cpp -- S7 to S11 on rank 0: receipts to manifest, publish, COMMITTED, LATEST.
#include <algorithm>
#include <array>
#include <future>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json_node.h"
#include "base/units.h"
#include "checkpoint/admission.h"
#include "checkpoint/adopt.h"
#include "checkpoint/attempt.h"
#include "checkpoint/completeness.h"
#include "checkpoint/posix_io.h"
#include "checkpoint/readback.h"
#include "checkpoint/retention.h"
#include "checkpoint/save_job.h"
#include "checkpoint/scan.h"
#include "checkpoint/tensor_text.h"

namespace trainctl {
namespace fs = std::filesystem;
namespace {

struct Gathered {
  std::vector<Receipt> receipts;  // by rank
  std::vector<ReceiptRecord> records;
  std::vector<std::string> texts;
  bool plan_is_known = false;  // then the receipts are without their tensors
};

std::string list_of_missing(const std::vector<std::optional<Receipt>>& receipts) {
  std::string text;
  int64_t count = 0;
  for (size_t r = 0; r < receipts.size(); ++r)
    if (!receipts[r] && ++count <= 8) text += fmt::format("{}{}", text.empty() ? "" : ", ", r);
  return count > 8 ? fmt::format("{} and {} more", text, count - 8) : text;
}

// Few ranks are looked for often, many seldom.
std::chrono::milliseconds longest_nap(int64_t world) {
  return std::chrono::milliseconds(std::clamp<int64_t>(world / 4, 10, 200));
}

Gathered gather(const SaveJob& job, const fs::path& folder, KnownPlan& known) {
  const auto world = static_cast<size_t>(job.world);
  std::vector<std::optional<Receipt>> receipts(world);
  std::vector<bool> repeats(world);
  Gathered all;
  all.records.resize(world);
  all.texts = std::move(known.buffers);
  all.texts.resize(world);
  size_t have = 0;
  for (PatientWait wait(job.deadline_s, longest_nap(job.world)); have < world; wait.sleep()) {
    for (size_t r = 0; r < world; ++r) {
      const std::string name = receipt_path(static_cast<int64_t>(r));
      const fs::path path = folder / name;
      if (receipts[r] || regular_file_bytes(path) < 0) continue;
      std::string& text = all.texts[r];
      read_small_file(path, kMaxRecordBytes, text);
      repeats[r] = known.receipts.size() == world && tensors_of_receipt(text) == tensors_of_receipt(known.receipts[r]);
      Receipt receipt = repeats[r] ? receipt_but_tensors(text, path.string()) : receipt_from_text(text, path.string());
      if (!receipt.ok) fail(ErrorKind::checkpoint, fmt::format("rank {}: {}", r, receipt.reason));
      if (receipt.attempt != job.attempt || receipt.step != job.step || receipt.rank != static_cast<int64_t>(r))
        fail(ErrorKind::checkpoint,
             fmt::format("rank {}: its receipt belongs to step {}, attempt {}", r, receipt.step, receipt.attempt));
      all.records[r] = {name, static_cast<int64_t>(r), static_cast<int64_t>(text.size()),
                        xxh128_hex(text.data(), text.size())};
      receipts[r] = std::move(receipt);
      ++have;
    }
    if (have == world) break;
    if (job.cancelled && *job.cancelled) fail(ErrorKind::checkpoint, "the run is ending");
    if (wait.expired())
      fail(ErrorKind::checkpoint, fmt::format("no receipt after {} s (checkpoint.deadline_s) from rank {}",
                                              job.deadline_s, list_of_missing(receipts)));
  }
  all.plan_is_known = std::find(repeats.begin(), repeats.end(), false) == repeats.end();
  for (size_t r = 0; r < world; ++r)
    all.receipts.push_back(repeats[r] && !all.plan_is_known
                               ? receipt_from_text(all.texts[r], (folder / all.records[r].path).string())
                               : std::move(*receipts[r]));
  return all;
}

// One record per tensor, with the chunks of all ranks, which are taken from the receipts.
std::vector<TensorRecord> merge_tensors(std::vector<Receipt>& receipts) {
  std::map<std::pair<std::string_view, std::string_view>, TensorRecord*> merged;
  for (Receipt& receipt : receipts)
    for (TensorRecord& t : receipt.tensors) {
      const auto [at, is_new] = merged.try_emplace({t.name, t.role}, &t);
      if (is_new) continue;
      TensorRecord& known = *at->second;
      if (known.shape != t.shape || known.dtype != t.dtype || known.alias_of != t.alias_of ||
          known.derived_from_role != t.derived_from_role)
        fail(ErrorKind::checkpoint, fmt::format("rank {} describes tensor {} ({}) as {} {}, another rank as {} {}",
                                                receipt.rank, in_quotes(t.name), t.role, name(t.dtype),
                                                to_string(t.shape), name(known.dtype), to_string(known.shape)));
      std::move(t.chunks.begin(), t.chunks.end(), std::back_inserter(known.chunks));
    }
  std::vector<TensorRecord> tensors;
  tensors.reserve(merged.size());
  for (auto& [key, t] : merged) tensors.push_back(std::move(*t));
  return tensors;
}

bool same_names_and_sizes(const std::vector<FileRecord>& a, const std::vector<FileRecord>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const FileRecord& x, const FileRecord& y) {
    return x.path == y.path && x.bytes == y.bytes && x.header_bytes == y.header_bytes;
  });
}

// Takes the tensors of `known` when the plan is known.
Manifest make_manifest(const SaveJob& job, Gathered& gathered, KnownPlan& known) {
  Manifest m = draft_of(job);
  m.tensors = gathered.plan_is_known ? std::move(known.tensors) : merge_tensors(gathered.receipts);
  m.receipts = gathered.records;
  for (const Receipt& r : gathered.receipts) {
    m.non_finite += r.non_finite;
    m.files.insert(m.files.end(), r.files.begin(), r.files.end());
  }
  m.completeness = completeness_of(m, job.derived);
  const ScalarState& s = job.scalars;
  const bool healthy =
      m.non_finite == 0 && s.non_finite_count == 0 && std::isfinite(s.last_loss) && std::isfinite(s.last_grad_norm);
  m.kind = healthy ? "training" : "intermediate";
  if (const std::string absent = absent_class(m.completeness); m.kind == "training" && !absent.empty())
    fail(ErrorKind::checkpoint, "a training checkpoint needs every state class: " + absent);
  constexpr const char* kNew = "the new manifest";
  if (gathered.plan_is_known && same_names_and_sizes(m.files, known.files))
    check_manifest_but_tensors(m, kNew);
  else
    check_manifest(m, kNew);  // coverage: every tensor exactly once
  return m;
}

// A folder that already has this step's name: what was once committed is kept beside until the new one is committed,
// an interrupted save is trash. Returns where the old one went.
std::optional<fs::path> clear_final_name(const SaveJob& job) {
  const fs::path final_folder = job.final_folder();
  const fs::file_status status = fs::symlink_status(final_folder);
  if (!fs::exists(status)) return std::nullopt;
  const std::string name = final_folder.filename().string();
  if (!fs::is_directory(status) && !fs::is_symlink(status)) {  // somebody's file: it is kept, under another name
    rename_to_new_name(final_folder, job.root / fmt::format("{}.file-{}", name, job.attempt.substr(0, 8)));
    return std::nullopt;
  }
  if (inspect_folder(final_folder).state == CheckpointState::incomplete && !is_pinned(final_folder)) {
    move_to_trash(final_folder);
    return std::nullopt;
  }
  const fs::path aside = job.root / fmt::format("{}{}-{}", kSupersededPrefix, name, job.attempt.substr(0, 8));
  rename_to_new_name(final_folder, aside);
  sync_directory(job.root);  // before the new one takes the name: no power cut may keep that and lose this
  return aside;
}

void take_back(const SaveJob& job, const std::optional<fs::path>& aside) {
  if (fs::exists(job.final_folder())) rename_to_new_name(job.final_folder(), job.staging_folder());
  if (aside) rename_to_new_name(*aside, job.final_folder());
  sync_directory(job.root);
}

}  // namespace

void abandon_attempt(const SaveJob& job, const std::string& reason) noexcept {
  bool written = false;
  for (int attempt = 0; attempt < 2 && !written; ++attempt) {
    try {
      if (!fs::exists(job.staging_folder())) return;
      Unusable unusable{reason, fmt::format("save, rank {}", job.rank), "", wall_clock_ns()};
      put_small_file(job.staging_folder() / kUnusableName, to_text(unusable));
      written = true;
    } catch (const std::exception&) {  // a full disk: make room, once
      give_up_ballast(job.root);
    }
  }
  try {
    // Where not even the reason can be written, the other ranks learn it from the folder that is gone. What remains is
    // removed by the next save's admission.
    remove_tree(written ? job.staging_folder() / "data" : job.staging_folder());
  } catch (const std::exception&) {
  }
}

Manifest manifest_of_receipts(const SaveJob& job, const fs::path& folder) {
  KnownPlan none;
  Gathered gathered = gather(job, folder, none);
  return make_manifest(job, gathered, none);
}

CommitResult commit_attempt(const SaveJob& job, KnownPlan* known) {
  KnownPlan plan = known == nullptr ? KnownPlan() : std::exchange(*known, {});
  Gathered gathered = gather(job, job.staging_folder(), plan);
  // A receipt is seen before its rank has synced its name; the commit must not outlive one.
  sync_directory((job.staging_folder() / receipt_path(0)).parent_path());
  job.reached(SavePoint::gathered);
  Manifest manifest = make_manifest(job, gathered, plan);
  if (!gathered.plan_is_known) plan.text = tensors_text(manifest.tensors);
  const TextAround around = text_around_tensors(manifest);
  const std::array<std::string_view, 3> text{around.before, plan.text, around.after};
  const int64_t manifest_bytes = std::ssize(text[0]) + std::ssize(text[1]) + std::ssize(text[2]);
  if (manifest_bytes > kMaxRecordBytes)
    fail(ErrorKind::checkpoint,
         fmt::format("the manifest would have {} ({}, {}), and one of more than {} cannot be read back: fewer ranks or "
                     "larger tensors make it smaller",
                     counted(manifest_bytes, "byte"), counted(std::ssize(manifest.tensors), "tensor"),
                     counted(std::ssize(manifest.files), "file"), kMaxRecordBytes));
  // While the disk is busy with the same bytes.
  std::future<std::string> digesting = std::async([&text] { return sha256_hex(text); });
  write_file_atomically(job.staging_folder() / kManifestName, text);
  const std::string digest = digesting.get();
  if (known != nullptr) {
    plan.buffers = std::exchange(plan.receipts, std::move(gathered.texts));
    plan.files = manifest.files;
    plan.tensors = std::move(manifest.tensors);
    *known = std::move(plan);
  }
  job.reached(SavePoint::manifest);

  Committed committed{
      job.step, job.attempt, manifest.kind, digest, manifest_bytes, static_cast<int64_t>(manifest.files.size()), 0};
  for (const FileRecord& f : manifest.files) committed.bytes += f.bytes;
  const std::string closed = job.readback ? open_readback(job) : "";
  const std::unique_ptr<const SaveJob, void (*)(const SaveJob*)> place(
      job.readback ? &job : nullptr, [](const SaveJob* opened) { close_readback(*opened); });
  const std::optional<fs::path> aside = clear_final_name(job);
  try {
    rename_to_new_name(job.staging_folder(), job.final_folder());
    sync_directory(job.root);
    job.reached(SavePoint::published);
    write_file_atomically(job.final_folder() / kCommittedName, to_text(committed));
  } catch (const std::exception& e) {
    // The name may be in place although its folder could not be synced: then the save did happen, and other ranks may
    // have seen it. The older ones stay: a power cut could still undo it.
    if (regular_file_bytes(job.final_folder() / kCommittedName) >= 0 &&
        inspect_folder(job.final_folder()).attempt == job.attempt)
      return {digest, e.what()};
    take_back(job, aside);
    throw;
  }
  // From here on the checkpoint exists: what fails below is no failure of the save.
  try {
    job.reached(SavePoint::committed);
    write_file_atomically(job.root / kLatestName, to_text(Latest{job.step, folder_name_of(job.step), digest}));
    job.reached(SavePoint::latest);
    drop_attempt_record(job.final_folder());
    Readback proof;
    if (job.readback) proof = read_back(job, digest, closed);
    if (!proof.damage.empty()) return {digest, "", proof.damage};  // and nothing older is removed
    if (!proof.note.empty()) return {digest, proof.note};          // nor for one that was to be proven and is not
    if (aside && is_succeeded(*aside, job.run_id)) move_unpinned_to_trash(*aside);
    if (manifest.kind == "training") drop_attempts_up_to(job.root, job.step);
    apply_retention(job.root, {job.keep, job.keep_every_steps, job.run_id});
    job.reached(SavePoint::retained);
  } catch (const std::exception& e) {
    return {digest, e.what()};
  }
  return {digest, ""};
}

}  // namespace trainctl
