// apps/trainctl/cmd_checkpoint_care.cpp -- `trainctl checkpoint verify | mark | prune | adopt`: what leaves a mark.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/file_error.h"
#include "base/json_node.h"
#include "base/units.h"
#include "checkpoint/adopt.h"
#include "checkpoint/markers.h"
#include "checkpoint/retention.h"
#include "checkpoint_cli.h"
#include "recipe/job.h"

namespace trainctl {
namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

// The folder that holds a folder of checkpoints: a run's, if it is one.
RunPaths run_around(const fs::path& root) {
  return {fs::absolute(root / "").lexically_normal().parent_path().parent_path()};  // also of "run/checkpoints/"
}

// The locks of the run that a folder of checkpoints belongs to, held until this goes: the launcher's, and that of the
// ranks, which may outlive it. Without a run there is nothing to hold. Throws Error{environment} while the run is live,
// with what to do then.
class RunIsOver {
 public:
  RunIsOver(const fs::path& root, const std::string& command, const std::string& what_to_do) {
    const RunPaths run = run_around(root);
    const auto hold = [&](FileLock& lock, const fs::path& file) {
      std::string holder;
      if (!fs::exists(file)) return false;
      if (!lock.try_acquire(file, "checkpoint " + command, &holder))
        fail(ErrorKind::environment, fmt::format("the run or another command is still using {} ({}); {}", root.string(),
                                                 holder.empty() ? "it has not said who it is" : holder, what_to_do));
      return true;
    };
    known_ = hold(launcher_, run.lock());
    hold(ranks_, run.ranks_lock());
  }
  bool known() const { return known_; }  // there is a run, and it has ended

 private:
  FileLock launcher_, ranks_;
  bool known_ = false;
};

// Of a run the newest is judged, not the newest usable one; only what was never a checkpoint, or is known to be none to
// use, is passed over.
std::string unless_to_be_judged(const CheckpointInfo& info) {
  return info.state == CheckpointState::damaged ? "" : unless_usable(info);
}

// "; the newest usable one is ..." for a run of which a bad one was judged.
std::string what_remains(const fs::path& path, const fs::path& judged) {
  if (path == judged) return "";
  for (const CheckpointInfo& info : scan_checkpoints(judged.parent_path()))
    if (info.state == CheckpointState::usable && info.folder != judged)
      return fmt::format("; the newest usable one is {}", info.folder.string());
  return "; the run has no usable one";
}

void verify(const CheckpointOptions& o) {
  const fs::path folder = chosen_checkpoint(o.path, o.step, unless_to_be_judged);
  const VerifyReport report =
      o.full ? prove_checkpoint(folder, progress_bar("verifying")) : verify_checkpoint(folder, false);
  if (!report.whole()) ensure_not_removed(folder);
  if (o.json) {
    print_json({{"checkpoint", to_json(report.info)},
                {"whole", report.whole()},
                {"full", o.full},
                {"faults", report.faults},
                {"notes", report.notes},
                {"blocks", report.blocks},
                {"bytes", report.bytes}});
  } else {
    for (const std::string& fault : report.faults) print_out("fault: " + fault + "\n");
    for (const std::string& note : report.notes) print_out("note: " + note + "\n");
    if (report.whole() && o.full)
      print_out(fmt::format("{}: whole ({}, {} read from the disk and compared with their digests){}\n",
                            folder.string(), counted(report.blocks, "block"), human_bytes(report.bytes),
                            report.info.verified ? "; marked VERIFIED" : ""));
    else if (report.whole())
      print_out(fmt::format("{}: markers, manifest, sizes and headers agree (--full compares every byte)\n",
                            folder.string()));
    else if (!report.wrong.empty() && report.info.state == CheckpointState::unusable)
      print_out("marked UNUSABLE: nothing loads it by mistake\n");
  }
  ensure_readable(report.info);
  const bool only_marked = report.info.state == CheckpointState::unusable && report.info.beneath.empty() &&
                           report.faults.size() == 1 && report.wrong.empty() && (o.full || !report.info.proven_damaged);
  if (only_marked)
    fail(ErrorKind::checkpoint,
         fmt::format("{} is whole, and marked unusable; trainctl checkpoint mark usable takes the "
                     "mark away{}",
                     folder.string(), what_remains(o.path, folder)));
  if (!report.whole())
    fail(ErrorKind::checkpoint, fmt::format("{} is not whole: {}{}", folder.string(),
                                            counted(std::ssize(report.faults), "fault"), what_remains(o.path, folder)));
}

const std::vector<std::string> kVerdicts = {"unusable", "usable", "pin", "unpin"};

bool is_verdict(const std::string& word) {
  return std::find(kVerdicts.begin(), kVerdicts.end(), word) != kVerdicts.end();
}

// Whose mark is to go must be said: of a run the newest usable one, which others mean, has none.
fs::path choose_marked(const CheckpointOptions& o) {
  if (o.step || is_checkpoint_folder(o.path)) return choose_checkpoint(o.path, o.step).folder;
  const fs::path root = checkpoint_root_of(o.path);
  fail(ErrorKind::usage,
       fmt::format("checkpoint mark usable needs one checkpoint: give --step, or its folder; {} has {}", root.string(),
                   steps_text(scan_checkpoints(root))));
}

void mark(const CheckpointOptions& given) {
  CheckpointOptions o = given;
  if (!is_verdict(o.verdict) && is_verdict(o.path)) std::swap(o.verdict, o.path);  // PATH first is as good
  if (!is_verdict(o.verdict)) {
    const std::string close = nearest(o.verdict, kVerdicts);
    fail(ErrorKind::usage, fmt::format("checkpoint mark has no verdict {}; {}legal: unusable, usable, pin, unpin",
                                       in_quotes(o.verdict), close.empty() ? "" : "did you mean " + close + "? "));
  }
  const bool adds = o.verdict == "unusable" || o.verdict == "pin";
  if (adds && o.reason.empty())
    fail(ErrorKind::usage,
         fmt::format("checkpoint mark {} needs --reason: whoever finds the mark will want to know", o.verdict));
  const fs::path folder = o.verdict == "usable" ? choose_marked(o) : chosen_checkpoint(o.path, o.step);
  if (!is_folder(folder)) fail(ErrorKind::checkpoint, fmt::format("there is no checkpoint at {}", folder.string()));
  bool changed = true;
  std::string looked;
  const CheckpointInfo info = while_there({folder}, [&] {
    if (o.verdict == "pin") return pin_checkpoint(folder, o.reason);
    if (o.verdict == "unusable") {
      changed = mark_unusable(folder, o.reason, std::string(kMarkedByHand), "");
    } else if (o.verdict == "usable") {
      const UsableAgain again = mark_usable(folder, progress_bar("verifying"));
      changed = again.changed;
      looked = again.looked;
    } else {
      changed = unpin_checkpoint(folder);
    }
    return inspect_folder(folder);
  });
  ensure_not_removed(folder);
  if (o.json) return print_json({{"changed", changed}, {"looked", looked}, {"checkpoint", to_json(info)}});
  const std::string marks = marks_of(info), unchanged = o.verdict == "unusable" ? "its damage is proven, the mark that "
                                                                                  "says so stays; it is "
                                                                                : "had no such mark; it is ";
  print_out(fmt::format("{}: {}{}{}{}\n", folder.string(), changed ? "now " : unchanged, name(info.state),
                        marks.empty() ? "" : ", " + marks, info.reason.empty() ? "" : " (" + info.reason + ")"));
  if (!looked.empty()) print_out(wrapped(looked, 2));
}

// A folder without checkpoints is one of a run that has none yet, or not the one that was meant.
void check_holds_checkpoints(const fs::path& root) {
  if (!scan_checkpoints(root, Look::glance).empty() || fs::exists(run_around(root).launch())) return;
  fail(ErrorKind::checkpoint, fmt::format("{} holds no checkpoints and is not of a run; give a run directory, its "
                                          "checkpoints folder, or one checkpoint (step-...)",
                                          root.string()));
}

// prune takes from a run: what it would do elsewhere is not what somebody means who names one checkpoint.
void check_is_no_checkpoint(const fs::path& path) {
  const fs::path normal = fs::absolute(path / "").lexically_normal().parent_path();
  if (is_folder(path / "checkpoints")) return;
  const CheckpointInfo info = inspect_folder(normal);
  const bool of_run = step_of_folder(normal.filename().string()) || is_superseded(info);
  if (!of_run && !is_checkpoint_folder(path)) return;
  if (!of_run)
    fail(ErrorKind::usage,
         fmt::format("{} is one checkpoint{} that is of no run, so prune has nothing to choose from. When it is needed "
                     "no more, remove its folder (rm -r)",
                     path.string(), info.kind.empty() ? "" : fmt::format(" (kind {})", info.kind)));
  const fs::path root = normal.parent_path(), run = run_around(root).root;
  fail(ErrorKind::usage,
       fmt::format("{0} is one checkpoint, and prune chooses among all of a run: give {1}. To keep this one: trainctl "
                   "checkpoint mark pin {0} --reason WHY. To have nothing load it: trainctl checkpoint mark unusable "
                   "{0} --reason WHY. No command removes one alone: once the run has ended, remove its folder (rm -r)",
                   path.string(), root.filename() == "checkpoints" ? run.string() : root.string()));
}

// The id of the run whose folder of checkpoints this is; "" where nothing tells.
std::string run_of(const fs::path& root) {
  try {
    return load_job(run_around(root).launch()).run_id;
  } catch (const Error&) {
    return "";
  }
}

void prune(const CheckpointOptions& o) {
  const fs::path root = checkpoint_root_of(o.path);
  check_is_no_checkpoint(o.path);
  std::optional<RunIsOver> over;
  check_holds_checkpoints(root);
  if (!o.dry_run)
    over.emplace(root, "prune",
                 "prune when it has ended, or set checkpoint.keep in its recipe, which prunes meanwhile");
  const RetentionPolicy policy(o.keep, o.keep_every_steps, run_of(root));
  if (!o.dry_run)
    for (const fs::path& damaged : prove_what_stays(root, policy, progress_bar("proving what stays")))
      print_error("warning", fmt::format("{} is damaged: marked unusable, and not counted as kept", damaged.string()));
  const std::vector<fs::path> gone = prune_checkpoints(root, policy, o.dry_run);
  if (o.json) {
    ordered_json folders = ordered_json::array();
    for (const fs::path& folder : gone) folders.push_back(folder.string());
    return print_json({{"dry_run", o.dry_run}, {"removed", folders}});
  }
  for (const fs::path& folder : gone)
    print_out(fmt::format("{} {}\n", o.dry_run ? "would remove" : "removed", folder.string()));
  if (gone.empty()) print_out("nothing to remove\n");
  if (o.dry_run)
    print_out(
        "dry run: nothing was removed. Not checked: whether the run still goes on, and whether what stays is whole; "
        "where\nnone of the states kept is verified, prune first reads the newest, and keeps another if that is "
        "damaged\n");
}

// The attempt that PATH names, or the newest one of a run that can be adopted.
fs::path choose_attempt(const fs::path& path, bool run_is_over) {
  if (fs::exists(path / kAttemptName) || is_checkpoint_folder(path) || !fs::is_directory(path)) return path;
  const fs::path root = checkpoint_root_of(path);
  std::vector<std::pair<int64_t, fs::path>> choices;
  std::string refused;
  for (const AttemptInfo& a : scan_attempts(root, run_is_over)) {
    if (a.adoptable)
      choices.emplace_back(a.step, a.folder);
    else
      refused += fmt::format("\n  {}: {}", a.folder.string(), a.reason);
  }
  for (const CheckpointInfo& info : scan_checkpoints(root, Look::glance))
    if (info.state == CheckpointState::incomplete && adoption_fault(info.folder, run_is_over).empty())
      choices.emplace_back(info.step, info.folder);
  if (choices.empty())
    fail(ErrorKind::checkpoint,
         fmt::format("{} has no interrupted save that can be adopted{}", root.string(), refused));
  return std::max_element(choices.begin(), choices.end())->second;
}

// The folder of checkpoints that an attempt lies in, for the run's lock.
fs::path root_of_attempt(const fs::path& path) {
  const fs::path at = fs::absolute(path).lexically_normal();
  for (fs::path p = at; p.has_relative_path(); p = p.parent_path())
    if (p.filename() == ".staging") return p.parent_path();
  return fs::exists(at / kAttemptName) ? at.parent_path() : checkpoint_root_of(at);
}

void adopt(const CheckpointOptions& o) {
  const RunIsOver over(root_of_attempt(o.path), "adopt",
                       "it ends its saves itself; adopt when it has ended and left one unfinished");
  const CheckpointInfo info =
      adopt_attempt(choose_attempt(o.path, over.known()), over.known(), progress_bar("hashing"));
  if (o.json) return print_json({{"checkpoint", to_json(info)}});
  print_out(fmt::format("{}: step {}, kind {}, {}; every block was read and compared\n", info.folder.string(),
                        info.step, info.kind, name(info.state)));
}

}  // namespace

void add_checkpoint_care_commands(CLI::App& group, const std::shared_ptr<CheckpointOptions>& options) {
  CLI::App* one = add_checkpoint_subcommand(
      group, options, "verify",
      "Prove one checkpoint whole; exit 5 when it is not. Of a run the newest is judged, damaged or not; only newer\n"
      "ones that were never committed or are marked unusable are passed over, and named. --full reads every block\n"
      "from the disk and writes the verdict down: VERIFIED, or UNUSABLE with file and block",
      verify, {"trainctl checkpoint verify --full runs/llama_tiny_text/1"});
  add_checkpoint_path(one, options, "the newest");
  one->add_flag("--full", options->full, "Compare every byte with its digest");

  one = add_checkpoint_subcommand(
      group, options, "mark",
      "Mark a checkpoint: unusable (nobody loads it by mistake) or pin (nothing removes it); usable and\n"
      "unpin take the mark away. usable looks first: where something found damaged blocks, at every block;\n"
      "what is not whole stays unusable (exit 5)",
      mark,
      {"trainctl checkpoint mark unusable run/checkpoints/step-00000200 --reason \"loss spike\"",
       "trainctl checkpoint mark pin runs/llama_tiny_text/1 --step 200 --reason \"figure 2\"",
       "trainctl checkpoint mark usable run/checkpoints/step-00000200"});
  one->add_option("verdict", options->verdict, "unusable, usable, pin or unpin")->required();
  add_checkpoint_path(one, options, "the newest usable one");
  one->add_option("--reason", options->reason, "Why; needed for unusable and pin");

  one = add_checkpoint_subcommand(
      group, options, "prune",
      "Remove all but the newest usable checkpoints, and older broken ones. Pinned ones and the newest\n"
      "verified training state stay; where none of those kept is verified, the newest is first read and\n"
      "proven",
      prune, {"trainctl checkpoint prune runs/llama_tiny_text/1 --keep 2 --dry-run"});
  add_checkpoint_path(one, options);
  one->add_option("--keep", options->keep, "Newest usable ones to keep")->required()->transform(whole_number(1));
  one->add_option("--keep-every-steps", options->keep_every_steps, "Keep training states of these steps too; 0: none")
      ->transform(whole_number(0));
  one->add_flag("--dry-run", options->dry_run,
                "Only say what would go; what stays is not read, and a run in progress not noticed");

  one = add_checkpoint_subcommand(
      group, options, "adopt",
      "End a save whose rank 0 died after every rank had written its part: re-hashes every block, then\n"
      "commits. Refused (exit 5) with the reason when anything is missing. PATH may also be the attempt",
      adopt,
      {"trainctl checkpoint adopt runs/llama_tiny_text/1",
       "trainctl checkpoint adopt run/checkpoints/.staging/step-00000200.0123456789abcdef0123456789abcdef"});
  add_checkpoint_path(one, options);
}

}  // namespace trainctl
