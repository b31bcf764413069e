// lib/checkpoint/checkpointer_restore.cpp -- choosing a checkpoint together, and falling back together.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
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
                : fmt::format("its kind is {}, a run continues from kind training", info.kind);
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
    if (std::any_of(infos.begin(), infos.end(), [&](const CheckpointInfo& i) { return i.step == named.step; }))
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

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += "\n  " + line;
  return text;
}

// How the recipe of a checkpoint differs from this run's in what shapes the state: "model.d_model is 64 here and 128
// there" in `differences`, and in `remedy` the values to restore. Both are empty when a recipe is not recorded.
struct RecipeDifference {
  std::string differences, remedy;
};

RecipeDifference recipe_difference(const std::string& here_text, const std::string& there_text) {
  using nlohmann::json;
  const auto flat_recipe = [](const std::string& text) {
    const json provenance = json::parse(text, nullptr, /*allow_exceptions=*/false);
    const bool has = provenance.is_object() && provenance.contains("recipe") && provenance["recipe"].is_object();
    return has ? provenance["recipe"].flatten() : json::object();
  };
  const json here = flat_recipe(here_text), there = flat_recipe(there_text);
  RecipeDifference d;
  for (const auto& [pointer, value] : there.items()) {
    const bool shapes =
        pointer.starts_with("/model/") || pointer == "/runtime/precision" || pointer == "/optimizer/kind";
    if (!shapes || !here.contains(pointer) || here[pointer] == value) continue;
    std::string key = pointer.substr(1);
    std::replace(key.begin(), key.end(), '/', '.');
    d.differences += fmt::format("{}{} is {} here and {} there", d.differences.empty() ? "" : ", ", key,
                                 here[pointer].dump(), value.dump());
    d.remedy += fmt::format("{}{} to {}", d.remedy.empty() ? "" : ", ", key, value.dump());
  }
  return d;
}

// All of a misfit, the cause first; of many tensors the first few.
std::string describe_misfit(const std::string& folder, const std::string& tensors, const RecipeDifference& recipe) {
  constexpr int kShown = 8;
  std::string text = fmt::format("{} does not fit the model of this recipe{}{}", folder,
                                 recipe.differences.empty() ? "" : ": ", recipe.differences);
  size_t end = 0;
  for (int i = 0; i < kShown && end != std::string::npos; ++i) end = tensors.find('\n', end + 1);
  text += tensors.substr(0, end);
  if (end != std::string::npos)
    text += fmt::format("\n  and {} more",
                        std::count(tensors.begin() + static_cast<std::ptrdiff_t>(end), tensors.end(), '\n'));
  if (tensors.empty()) text += "\n  another rank names the tensors";
  return text +
         (recipe.remedy.empty()
              ? "\nwhat to do: restore the model section that the checkpoint was trained with, or start another "
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
    std::string why, misfit;
    const std::unique_ptr<CheckpointReader> reader = open_together(ranks, folder, io_options(), why);
    if (reader) misfit = fit_faults(*reader, catalog);
    // A state of another model is no damage: an older one would not fit either, or worse, would.
    if (!ranks.all_agree(misfit.empty()))
      fail(ErrorKind::checkpoint,
           describe_misfit(
               folder, misfit,
               reader ? recipe_difference(options_.provenance, reader->manifest().provenance) : RecipeDifference()));
    if (ranks.all_agree(why.empty())) {
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
         fmt::format("there are checkpoints in {}, and none can be used (--resume never starts afresh):{}",
                     options_.folder.string(), joined(result.rejected)));
  return result;
}

std::vector<fs::path> Checkpointer::State::leave_later_steps() {
  std::vector<fs::path> left;
  const int64_t from = std::exchange(rolled_back_to_, -1);
  if (from < 0 || options_.agreement.rank != 0) return left;
  for (const CheckpointInfo& info : scan_checkpoints(options_.folder)) {
    if (info.state != CheckpointState::usable || info.step <= from) continue;
    mark_unusable(info.folder, fmt::format("superseded: the run was told to go on from step {}", from),
                  std::string(kMarkedByResume), "");
    left.push_back(info.folder);
  }
  return left;
}

}  // namespace trainctl
