// apps/trainctl/cmd_checkpoint.cpp -- `trainctl checkpoint list | inspect | verify | diff | mark | prune`; export has
// its own file.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/units.h"
#include "checkpoint/retention.h"
#include "checkpoint/verify.h"
#include "cli.h"

namespace trainctl {
namespace {

using nlohmann::ordered_json;

struct CheckpointOptions {
  std::string path, other, verdict, reason;
  std::optional<int64_t> step;
  int64_t keep = 0;
  bool json = false, full = false, all_tensors = false, dry_run = false;
};

ordered_json to_json(const CheckpointInfo& info) {
  return {{"folder", info.folder.string()},
          {"step", info.step},
          {"kind", info.kind},
          {"state", name(info.state)},
          {"reason", info.reason},
          {"bytes", info.bytes},
          {"attempt", info.attempt},
          {"manifest_sha256", info.manifest_sha256}};
}

// A bar on a terminal only; the line is wiped at the end.
Progress progress_bar(std::string_view what) {
  if (!::isatty(STDERR_FILENO)) return {};
  return [what = std::string(what), shown = std::make_shared<int>(-1)](int64_t done, int64_t total) {
    const int percent =
        total > 0 ? static_cast<int>(100.0 * static_cast<double>(done) / static_cast<double>(total)) : 100;
    if (percent == *shown) return;
    *shown = percent;
    if (done >= total)
      std::fputs("\r\033[K", stderr);
    else
      std::fprintf(stderr, "\r%s %3d %%", what.c_str(), percent);
    std::fflush(stderr);
  };
}

std::string date_of(int64_t ns) {
  const std::time_t seconds = static_cast<std::time_t>(ns / 1'000'000'000);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text;
}

std::string shape_text(const Shape& shape) { return to_string(shape); }

void list(const CheckpointOptions& o) {
  const std::filesystem::path root = checkpoint_root_of(o.path);
  const std::vector<CheckpointInfo> all = scan_checkpoints(root);
  if (o.json) {
    ordered_json rows = ordered_json::array();
    for (const CheckpointInfo& info : all) rows.push_back(to_json(info));
    return print_json({{"folder", root.string()}, {"checkpoints", rows}});
  }
  if (all.empty()) return print_out(fmt::format("no checkpoints in {}\n", root.string()));
  print_out(fmt::format("{:>10}  {:<12} {:>11}  {:<10}  {}\n", "step", "kind", "size", "state", "reason"));
  for (const CheckpointInfo& info : all)
    print_out(fmt::format("{:>10}  {:<12} {:>11}  {:<10}  {}\n", info.step, info.kind.empty() ? "-" : info.kind,
                          info.bytes > 0 ? human_bytes(info.bytes) : "-", name(info.state), info.reason));
}

ordered_json to_json(const TensorRecord& t) {
  ordered_json shape = ordered_json::array();
  for (int d = 0; d < t.shape.rank(); ++d) shape.push_back(t.shape[d]);
  ordered_json value = {
      {"name", t.name}, {"role", t.role}, {"dtype", name(t.dtype)}, {"shape", shape}, {"chunks", t.chunks.size()}};
  if (!t.alias_of.empty()) value["alias_of"] = t.alias_of;
  if (!t.derived_from_role.empty()) value["derived_from"] = t.derived_from_role;
  return value;
}

// An unusable one can be looked into as well, as long as its manifest can be read.
void inspect(const CheckpointOptions& o) {
  const std::filesystem::path folder = choose_checkpoint(o.path, o.step);
  const CheckpointInfo info = inspect_folder(folder);
  const Manifest m = read_manifest(folder);
  if (o.json) {
    ordered_json value = to_json(info);
    value["save_reason"] = m.reason;
    value["run_id"] = m.run_id;
    value["world"] = m.world;
    value["created_ns"] = m.created_ns;
    value["parent"] = m.parent;
    value["scalars"] = {{"step", m.scalars.step},
                        {"last_loss", m.scalars.last_loss},
                        {"last_grad_norm", m.scalars.last_grad_norm},
                        {"consumed_samples", m.scalars.consumed_samples},
                        {"consumed_tokens", m.scalars.consumed_tokens},
                        {"seed", m.scalars.seed},
                        {"data_fingerprint", m.scalars.data_fingerprint},
                        {"non_finite_elements", m.non_finite}};
    for (const StateClass& c : m.completeness) value["completeness"][c.name] = {{"state", c.state}, {"where", c.where}};
    value["topology"] = ordered_json::parse(m.topology);
    value["provenance"] = ordered_json::parse(m.provenance);
    value["tensors"] = ordered_json::array();
    for (const TensorRecord& t : m.tensors) value["tensors"].push_back(to_json(t));
    value["files"] = ordered_json::array();
    for (const FileRecord& f : m.files)
      value["files"].push_back({{"path", f.path}, {"rank", f.rank}, {"bytes", f.bytes}, {"file_root", f.file_root}});
    return print_json(value);
  }
  print_out(fmt::format("{}\n  step {}, kind {}, {}{}\n", folder.string(), m.step, m.kind, name(info.state),
                        info.reason.empty() ? "" : ": " + info.reason));
  print_out(fmt::format("  saved {} ({}) by run {}, {}, {} in {}\n", date_of(m.created_ns), m.reason, m.run_id,
                        counted(m.world, "rank"), human_bytes(info.bytes), counted(std::ssize(m.files), "file")));
  print_out(fmt::format("  loss {:.6g}, gradient norm {:.6g}, {} and {} consumed\n", m.scalars.last_loss,
                        m.scalars.last_grad_norm, counted(m.scalars.consumed_samples, "sample"),
                        counted(m.scalars.consumed_tokens, "token")));
  print_out("  topology " + m.topology + "\n\nstate classes\n");
  for (const StateClass& c : m.completeness) print_out(fmt::format("  {:<22} {:<8} {}\n", c.name, c.state, c.where));
  print_out(fmt::format("\n{}\n  {:<48} {:<11} {:<5} {:<16} {}\n", counted(std::ssize(m.tensors), "tensor"), "name",
                        "role", "dtype", "shape", "stored"));
  const size_t shown = o.all_tensors ? m.tensors.size() : std::min<size_t>(m.tensors.size(), 24);
  for (size_t i = 0; i < shown; ++i) {
    const TensorRecord& t = m.tensors[i];
    const std::string stored = !t.alias_of.empty()            ? "as " + t.alias_of
                               : !t.derived_from_role.empty() ? "cast of " + t.derived_from_role
                                                              : counted(std::ssize(t.chunks), "part");
    print_out(
        fmt::format("  {:<48} {:<11} {:<5} {:<16} {}\n", t.name, t.role, name(t.dtype), shape_text(t.shape), stored));
  }
  if (shown < m.tensors.size()) print_out(fmt::format("  ... {} more (--tensors)\n", m.tensors.size() - shown));
}

void verify(const CheckpointOptions& o) {
  const std::filesystem::path folder = choose_checkpoint(o.path, o.step);
  const VerifyReport report = verify_checkpoint(folder, o.full, progress_bar("verifying"));
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
    if (report.whole())
      print_out(o.full ? fmt::format("{}: whole ({}, {} compared with their digests)\n", folder.string(),
                                     counted(report.blocks, "block"), human_bytes(report.bytes))
                       : fmt::format("{}: markers, manifest, sizes and headers agree (--full compares every byte)\n",
                                     folder.string()));
  }
  if (!report.whole())
    fail(ErrorKind::checkpoint,
         fmt::format("{} is not whole: {}", folder.string(), counted(std::ssize(report.faults), "fault")));
}

void diff(const CheckpointOptions& o) {
  const std::filesystem::path a = choose_checkpoint(o.path, std::nullopt), b = choose_checkpoint(o.other, std::nullopt);
  const CheckpointDifference d = diff_checkpoints(a, b, progress_bar("comparing"));
  if (o.json) {
    ordered_json tensors = ordered_json::array();
    for (const TensorDifference& t : d.tensors)
      tensors.push_back({{"name", t.name},
                         {"role", t.role},
                         {"what", t.what},
                         {"elements", t.elements},
                         {"max_abs", t.max_abs ? ordered_json(*t.max_abs) : ordered_json()}});
    return print_json({{"a", a.string()},
                       {"b", b.string()},
                       {"same", d.same()},
                       {"compared", d.compared},
                       {"scalars", d.scalars},
                       {"tensors", tensors}});
  }
  for (const std::string& scalar : d.scalars) print_out(scalar + "\n");
  for (const TensorDifference& t : d.tensors)
    print_out(fmt::format("{} ({}): {}{}{}\n", t.name, t.role, t.what,
                          t.elements > 0 ? " in " + counted(t.elements, "element") : std::string(),
                          t.max_abs ? fmt::format(", by at most {:.6g}", *t.max_abs) : std::string()));
  print_out(fmt::format("{} compared, {}{}\n", counted(d.compared, "tensor"),
                        counted(std::ssize(d.tensors), "differs", "differ"),
                        d.same() ? "; the checkpoints hold the same state" : ""));
}

void mark(const CheckpointOptions& o) {
  const bool bad = o.verdict == "unusable";
  if (bad && o.reason.empty())
    fail(ErrorKind::usage, "checkpoint mark unusable needs --reason: whoever finds the mark will want to know");
  const std::filesystem::path folder = choose_checkpoint(o.path, o.step);
  if (!std::filesystem::is_directory(folder))
    fail(ErrorKind::checkpoint, fmt::format("there is no checkpoint at {}", folder.string()));
  bool changed = true;
  if (bad)
    mark_unusable(folder, o.reason, "trainctl checkpoint mark", "");
  else
    changed = mark_usable(folder);
  const CheckpointInfo info = inspect_folder(folder);
  if (o.json) return print_json({{"changed", changed}, {"checkpoint", to_json(info)}});
  print_out(fmt::format("{}: {}{}{}\n", folder.string(), changed ? "now " : "had no mark; it is ", name(info.state),
                        info.reason.empty() ? "" : " (" + info.reason + ")"));
}

void prune(const CheckpointOptions& o) {
  const std::filesystem::path root = checkpoint_root_of(o.path);
  const std::filesystem::path lock_file = root.parent_path() / "lock";  // of the run directory; a run deletes by itself
  FileLock lock;
  std::string holder;
  if (!o.dry_run && std::filesystem::exists(lock_file) && !lock.try_acquire(lock_file, "checkpoint prune", &holder))
    fail(ErrorKind::environment, fmt::format("the run is still using {} ({}); prune when it has ended, or set "
                                             "checkpoint.keep in its recipe",
                                             root.string(), holder));
  const std::vector<std::filesystem::path> gone = prune_checkpoints(root, o.keep, o.dry_run);
  if (o.json) {
    ordered_json folders = ordered_json::array();
    for (const std::filesystem::path& folder : gone) folders.push_back(folder.string());
    return print_json({{"dry_run", o.dry_run}, {"removed", folders}});
  }
  for (const std::filesystem::path& folder : gone)
    print_out(fmt::format("{} {}\n", o.dry_run ? "would remove" : "removed", folder.string()));
  if (gone.empty()) print_out("nothing to remove\n");
}

CLI::App* add(CLI::App& parent, const std::shared_ptr<CheckpointOptions>& options, const std::string& name,
              const std::string& text, void (*run)(const CheckpointOptions&),
              const std::vector<std::string>& examples) {
  CLI::App* cmd = parent.add_subcommand(name, text);
  cmd->add_flag("--json", options->json, "Machine-readable output");
  cmd->callback([options, run] { run(*options); });
  add_examples(*cmd, examples);
  return cmd;
}

}  // namespace

void add_checkpoint_command(CLI::App& app) {
  CLI::App* group =
      app.add_subcommand("checkpoint",
                         "Look into, prove, compare, mark, remove and export checkpoints.\n"
                         "PATH is a run directory, its checkpoints folder, or one checkpoint (step-...).\n"
                         "import is not in this version.");
  group->require_subcommand(1);
  add_examples(*group, {"trainctl checkpoint list runs/llama_tiny_text/1",
                        "trainctl checkpoint verify --full runs/llama_tiny_text/1 --step 200"});
  auto options = std::make_shared<CheckpointOptions>();
  const auto path_option = [&options](CLI::App* cmd, bool with_step) {
    cmd->add_option("path", options->path, "Run directory, checkpoints folder or checkpoint")->required();
    if (with_step)
      cmd->add_option("--step", options->step, "Which one of a run; without it the newest usable one")
          ->check(whole_number(0));
  };

  path_option(add(*group, options, "list", "Steps, kinds, sizes, and which can be used or why not", list,
                  {"trainctl checkpoint list runs/llama_tiny_text/1", "trainctl checkpoint list checkpoints --json"}),
              false);

  CLI::App* one = add(*group, options, "inspect", "Tensors, state classes, topology and scalars of one checkpoint",
                      inspect, {"trainctl checkpoint inspect runs/llama_tiny_text/1 --step 200"});
  path_option(one, true);
  one->add_flag("--tensors", options->all_tensors, "List every tensor");

  one = add(*group, options, "verify", "Prove one checkpoint whole; exit 5 when it is not", verify,
            {"trainctl checkpoint verify --full runs/llama_tiny_text/1"});
  path_option(one, true);
  one->add_flag("--full", options->full, "Compare every byte with its digest");

  one = add(*group, options, "diff",
            "Compare the tensors and scalars of two checkpoints; layouts do not matter. Exit 0"
            " also when they differ",
            diff, {"trainctl checkpoint diff run/checkpoints/step-00000100 run/checkpoints/step-00000200"});
  one->add_option("a", options->path, "First checkpoint (a run: its newest)")->required();
  one->add_option("b", options->other, "Second checkpoint")->required();

  one = add(*group, options, "mark", "Mark a checkpoint so that nobody uses it by mistake, or take the mark away", mark,
            {"trainctl checkpoint mark unusable run/checkpoints/step-00000200 --reason \"loss spike\"",
             "trainctl checkpoint mark usable run/checkpoints/step-00000200"});
  one->add_option("verdict", options->verdict, "unusable or usable")
      ->required()
      ->check(CLI::IsMember({"unusable", "usable"}));
  path_option(one, true);
  one->add_option("--reason", options->reason, "Why; needed for unusable");

  one = add(*group, options, "prune", "Remove all but the newest usable checkpoints, and older broken ones", prune,
            {"trainctl checkpoint prune runs/llama_tiny_text/1 --keep 2 --dry-run"});
  path_option(one, false);
  one->add_option("--keep", options->keep, "Newest usable ones to keep")->required()->check(whole_number(1));
  one->add_flag("--dry-run", options->dry_run, "Only say what would go");

  add_checkpoint_export_command(*group);
}

}  // namespace trainctl
