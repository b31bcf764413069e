// lib/checkpoint/checkpointer_restore.cpp -- choosing a checkpoint together, and falling back together.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/units.h"
#include "checkpoint/adopt.h"
#include "checkpoint/checkpointer_state.h"
#include "checkpoint/posix_io.h"
#include "checkpoint/restore.h"
#include "checkpoint/retention.h"
#include "checkpoint/scan.h"

namespace trainctl {
namespace fs = std::filesystem;
namespace {

// What rank 0 found, in a form that can be broadcast: lines "+folder", "-folder: why"; "*" when any was ever committed.
std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string describe(const std::vector<CheckpointInfo>& infos, bool intermediate_too) {
  std::string text;
  bool committed = false;
  for (const CheckpointInfo& info : infos) {
    committed = committed || info.state != CheckpointState::incomplete;
    std::string why = info.reason;
    bool takes = info.state == CheckpointState::usable;
    if (takes && info.kind != "training" && !(intermediate_too && info.kind == "intermediate")) {
      takes = false;
      why = info.kind == "intermediate"
                ? "its kind is intermediate (the state holds infinities or NaNs); name it exactly, with "
                  "--allow-intermediate, to use it"
                : fmt::format("its kind is {}, a run continues from kind training{}", info.kind,
                              info.kind == "portable" ? "; --init-from starts one from its weights" : "");
    }
    text += takes ? "+" + info.folder.string() : "-" + info.folder.string() + ": " + one_line(why);
    text += '\n';
  }
  return text + (committed ? "*\n" : "");
}

struct Candidates {
  std::vector<std::string> usable, rejected;
  bool committed = false;
};

Candidates candidates_of(const std::string& text) {
  Candidates c;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    if (line.starts_with('+')) c.usable.push_back(line.substr(1));
    if (line.starts_with('-')) c.rejected.push_back(line.substr(1));
    c.committed = c.committed || line == "*";
    begin = end + 1;
  }
  return c;
}

// Somebody who removes a step folder leaves LATEST behind: the line of describe() that says so, or "".
std::string missing_latest(const fs::path& root, const std::vector<CheckpointInfo>& infos) {
  const fs::path latest = root / kLatestName;
  if (regular_file_bytes(latest) < 0) return "";
  try {
    const Latest named = latest_from_text(read_small_file(latest, kMaxRecordBytes), latest.string());
    if (std::any_of(infos.begin(), infos.end(),
                    [&](const CheckpointInfo& i) { return i.folder.filename() == named.folder; }))
      return "";
    return fmt::format("-{}: {} names it, and it is not there any more\n", (root / named.folder).string(), kLatestName);
  } catch (const Error&) {  // torn: it is only a hint
    return "";
  }
}

// Rank 0. "!why" when `from` stands for nothing.
std::string look(const fs::path& own_folder, const std::string& from, bool allow_intermediate) {
  try {
    // A glance is enough: what is taken is looked at closely.
    if (from == "auto") {
      const std::vector<CheckpointInfo> infos = scan_checkpoints(own_folder, Look::glance);
      return missing_latest(own_folder, infos) + describe(infos, false);
    }
    if (is_checkpoint_folder(from)) return describe({inspect_folder(from)}, allow_intermediate);
    return describe(scan_checkpoints(checkpoint_root_of(from), Look::glance), false);
  } catch (const std::exception& e) {
    return "!" + one_line(e.what());
  }
}

// A reader on every rank from one look at the folder: rank 0 checks markers, manifest, receipts and sizes, and hands
// the manifest's text to the others. Null with `why` on every rank when rank 0 cannot use it.
std::unique_ptr<CheckpointReader> open_together(const Agreement& ranks, const std::string& folder, const IoOptions& io,
                                                std::string& why) {
  std::unique_ptr<CheckpointReader> reader;
  std::string word;  // "+<64 digits>\n<text>" or "-why"
  if (ranks.rank == 0) {
    try {
      reader = std::make_unique<CheckpointReader>(folder, io);
      const std::string& digest = reader->info().manifest_sha256;
      word = "+" + digest + "\n";
      if (ranks.world > 1) {
        const std::string text = read_small_file(fs::path(folder) / kManifestName, kMaxRecordBytes);
        if (sha256_hex(text) != digest) fail(ErrorKind::checkpoint, "its manifest changes while it is read");
        word += text;
      }
    } catch (const Error& e) {
      const std::string text = e.what(), prefix = folder + " cannot be used: ";
      word = "-" + (text.starts_with(prefix) ? text.substr(prefix.size()) : text);
      reader.reset();
    }
  }
  word = ranks.broadcast_from_rank0(word);
  if (word.starts_with('-')) {
    why = word.substr(1);
    return nullptr;
  }
  try {
    if (!reader) reader = std::make_unique<CheckpointReader>(folder, word.substr(66), word.substr(1, 64), io);
  } catch (const Error& e) {
    why = e.what();
  }
  return reader;
}

// Collective. Tensors that no rank of this run takes would be dropped without a word: the moments of another optimizer.
// Weights may be taken in one form alone, which fit_faults sees to.
std::string roles_without_takers(const Manifest& manifest, const StateCatalog& catalog, const Agreement& ranks) {
  std::map<std::string, int64_t> stored;  // role -> tensors
  for (const TensorRecord& t : manifest.tensors)
    if (t.role != "weight" && t.role != "master") ++stored[t.role];
  std::string text;
  for (const auto& [role, tensors] : stored) {
    const bool taken =
        std::any_of(catalog.begin(), catalog.end(), [&role](const StateEntry& e) { return e.role == role; });
    if (ranks.sum(taken ? 1 : 0) == 0)
      text += fmt::format("\n  {} of role {} {} in the checkpoint, and nothing takes {} here",
                          counted(tensors, "tensor"), role, tensors == 1 ? "is" : "are", tensors == 1 ? "it" : "them");
  }
  return text;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += "\n  " + line;
  return text;
}

// All of a misfit, the cause first; of many tensors the first few.
std::string describe_misfit(const std::string& folder, const std::string& tensors, const RecipeVerdict& recipe) {
  constexpr int kShown = 8;
  std::string text = fmt::format("{} does not fit the model of this recipe{}{}", folder,
                                 recipe.differences.empty() ? "" : ": ", recipe.differences);
  size_t end = 0;
  for (int i = 0; i < kShown && end != std::string::npos; ++i) end = tensors.find('\n', end + 1);
  text += tensors.substr(0, end);
  if (end != std::string::npos)
    text += fmt::format("\n  and {} more",
                        std::count(tensors.begin() + static_cast<std::ptrdiff_t>(end), tensors.end(), '\n'));
  if (tensors.empty() && recipe.fits) text += "\n  another rank names the tensors";
  return text +
         (recipe.remedy.empty()
              ? "\nwhat to do: restore the model and optimizer sections that the checkpoint was trained with, or start "
                "another "
                "run with another --run-dir"
              : fmt::format("\nwhat to do: restore {}, or start another run with another --run-dir", recipe.remedy));
}

}  // namespace

RestoreResult Checkpointer::State::restore(const StateCatalog& catalog, const std::string& from,
                                           bool allow_intermediate) {
  const Agreement& ranks = options_.agreement;
  const std::string found =
      ranks.broadcast_from_rank0(ranks.rank == 0 ? look(options_.folder, from, allow_intermediate) : std::string());
  if (found.starts_with('!')) fail(ErrorKind::checkpoint, found.substr(1));
  const Candidates candidates = candidates_of(found);
  RestoreResult result;
  result.rejected = candidates.rejected;
  bool fell_back = false;
  for (const std::string& folder : candidates.usable) {
    std::string why;
    const std::unique_ptr<CheckpointReader> reader = open_together(ranks, folder, io_options(), why);
    const bool opened = ranks.all_agree(reader != nullptr);
    if (opened && from == "auto" && reader->manifest().run_id != options_.run_id) {  // the same text on every rank
      fell_back = true;
      result.rejected.push_back(
          fmt::format("{}: it is of another run ({}; this one is {}); --resume {} goes on from it all the same, "
                      "--init-from from its weights",
                      folder, one_line(reader->manifest().run_id), options_.run_id, folder));
      continue;
    }
    if (opened) {
      const RecipeVerdict verdict = options_.judge(reader->manifest());
      const std::string misfit =
          fit_faults(*reader, catalog) + roles_without_takers(reader->manifest(), catalog, ranks);
      // A state of another model is no damage: an older one would not fit either, or worse, would.
      if (!ranks.all_agree(misfit.empty() && verdict.fits))
        fail(ErrorKind::checkpoint, describe_misfit(folder, misfit, verdict));
      try {
        restore_catalog(*reader, catalog, arena_.device(), ranks);
      } catch (const Error& e) {
        if (e.kind() == ErrorKind::comm || e.kind() == ErrorKind::hang) throw;  // the ranks are out of step
        why = e.what();
      }
      if (ranks.all_agree(why.empty())) {
        const Manifest& m = reader->manifest();
        result.found = true;
        result.step = m.step;
        result.folder = folder;
        result.scalars = m.scalars;
        result.kind = m.kind;
        result.cost = reader->cost(ranks);
        result.manifest_sha256 = parent_ = reader->info().manifest_sha256;
        std::error_code unknown;
        const bool own = fs::equivalent(fs::path(folder).parent_path(), options_.folder, unknown);
        saved_step_ = own ? m.step : -1;
        rolled_back_to_ = own && from != "auto" ? m.step : -1;
        return result;
      }
    }
    fell_back = true;
    result.rejected.push_back(fmt::format("{}: {}", folder, why.empty() ? "another rank could not read it" : why));
    if (reader && reader->damage()) {
      // Read twice with the same result: nobody should try it again. A read-only folder is no reason to fail.
      const DamagedBlock& d = *reader->damage();
      try {
        mark_unusable(folder, fmt::format("{}: block {} is damaged", d.file, d.block),
                      fmt::format("restore, rank {}", ranks.rank),
                      fmt::format("expected {}, found {}", d.expected, d.actual));
      } catch (const Error&) {
      }
    }
  }
  if (from != "auto")
    fail(ErrorKind::checkpoint, fmt::format("no usable checkpoint at {}{}", from, joined(result.rejected)));
  if (candidates.committed || fell_back)
    fail(ErrorKind::checkpoint,
         fmt::format(
             "there are checkpoints in {}, and none can be used:{}\nwhat to do: where only a mark is in the way, "
             "trainctl checkpoint mark usable takes it away; to start afresh, choose another run directory "
             "(--run-dir)",
             options_.folder.string(), joined(result.rejected)));
  return result;
}

std::vector<fs::path> Checkpointer::State::leave_later_steps() {
  std::vector<fs::path> left;
  const int64_t from = std::exchange(rolled_back_to_, -1);
  if (from < 0 || options_.agreement.rank != 0) return left;
  for (const CheckpointInfo& info : scan_checkpoints(options_.folder)) {
    const bool usable = info.state == CheckpointState::usable;
    if (info.state == CheckpointState::unusable || info.step <= from || info.unreadable || info.other_version) continue;
    if (usable && !is_of_run(info.folder, {1, 0, options_.run_id}))
      continue;  // damaged ones may heal: they are marked too
    mark_unusable(info.folder, fmt::format("superseded: the run was told to go on from step {}", from),
                  std::string(kMarkedByResume), "");
    if (usable) left.push_back(info.folder);
  }
  drop_attempts_up_to(options_.folder, INT64_MAX);  // saves that an earlier process did not end are of that branch too
  return left;
}

}  // namespace trainctl
