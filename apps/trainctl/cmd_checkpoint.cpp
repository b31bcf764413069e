// apps/trainctl/cmd_checkpoint.cpp -- `trainctl checkpoint list | inspect | diff`: what only looks. What leaves a mark,
// export and import have their own files.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_node.h"
#include "base/units.h"
#include "checkpoint/adopt.h"
#include "checkpoint_cli.h"

namespace trainctl {
namespace {

using nlohmann::ordered_json;

struct Row {
  int64_t step;
  std::string kind, size, state, marks, text;
};

void list(const CheckpointOptions& o) {
  namespace fs = std::filesystem;
  // One that does not stand among the steps of a run (imported, or copied under another name) is listed alone.
  const fs::path path = fs::absolute(o.path).lexically_normal();
  const fs::path name_of = path.has_filename() ? path.filename() : path.parent_path().filename();
  const bool alone = is_checkpoint_folder(path) && !step_of_folder(name_of.string());
  const fs::path root = alone ? path : checkpoint_root_of(o.path);
  const std::vector<CheckpointInfo> all =
      alone ? std::vector{inspect_folder(path)} : scan_checkpoints(root, o.closely ? Look::closely : Look::glance);
  const std::vector<AttemptInfo> attempts = alone ? std::vector<AttemptInfo>() : scan_attempts(root, false);
  const auto adoptable = [](const CheckpointInfo& info) {
    return info.state == CheckpointState::incomplete && adoption_fault(info.folder, false).empty();
  };
  if (o.json) {
    ordered_json rows = ordered_json::array(), waiting = ordered_json::array();
    for (const CheckpointInfo& info : all) {
      rows.push_back(to_json(info));
      if (info.state == CheckpointState::incomplete) rows.back()["adoptable"] = adoptable(info);
    }
    for (const AttemptInfo& a : attempts)
      waiting.push_back(
          {{"folder", a.folder.string()}, {"step", a.step}, {"adoptable", a.adoptable}, {"reason", a.reason}});
    return print_json({{"folder", root.string()}, {"checkpoints", rows}, {"attempts", waiting}});
  }
  if (all.empty() && attempts.empty()) return print_out(fmt::format("no checkpoints in {}\n", root.string()));
  std::vector<Row> rows;
  for (const CheckpointInfo& info : all) {
    Row row{info.step,
            info.kind.empty() ? "-" : info.kind,
            info.bytes > 0 ? human_bytes(info.bytes) : "-",
            std::string(name(info.state)),
            marks_of(info),
            info.reason};
    if (step_of_folder(info.folder.filename().string()) != info.step)
      row.text += (row.text.empty() ? "" : "; ") + ("in " + info.folder.string());
    if (adoptable(info)) row.text += "; every rank's part is there: trainctl checkpoint adopt " + info.folder.string();
    if (info.pinned && !info.pin_reason.empty())
      row.text += (row.text.empty() ? "pinned: " : "; pinned: ") + info.pin_reason;
    for (const std::string& note : info.notes) row.text += (row.text.empty() ? "" : "; ") + note;
    rows.push_back(std::move(row));
  }
  for (const AttemptInfo& a : attempts)
    rows.push_back({a.step, "-", "-", "attempt", "",
                    a.adoptable ? "every rank's part is there: trainctl checkpoint adopt " + a.folder.string()
                                : "no checkpoint: " + a.reason});
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.step > b.step; });
  std::string text = fmt::format("{:>10}  {:<12} {:>11}  {:<10}  {}\n", "step", "kind", "size", "state", "marks");
  for (const Row& r : rows) {
    std::string line = fmt::format("{:>10}  {:<12} {:>11}  {:<10}  {}", r.step, r.kind, r.size, r.state, r.marks);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n" + wrapped(r.text, 12);
  }
  print_out(text);
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

ordered_json to_json(const Shape& shape) {
  ordered_json list = ordered_json::array();
  for (int d = 0; d < shape.rank(); ++d) list.push_back(shape[d]);
  return list;
}

// Everything of the manifest but the block digests and the places inside the files.
ordered_json to_json(const Manifest& m) {
  ordered_json value;
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
                      {"non_finite_count", m.scalars.non_finite_count},
                      {"non_finite_elements", m.non_finite}};
  if (!m.scalars.data_state.empty()) value["scalars"]["data_state"] = ordered_json::parse(m.scalars.data_state);
  value["completeness"] = to_json(m.completeness);
  value["topology"] = ordered_json::parse(m.topology);
  value["provenance"] = ordered_json::parse(m.provenance);
  value["meta"] = ordered_json::array();
  for (const MetaRecord& f : m.meta)
    value["meta"].push_back({{"path", f.path}, {"bytes", f.bytes}, {"xxh128", f.xxh128}});
  value["tensors"] = ordered_json::array();
  for (const TensorRecord& t : m.tensors) {
    ordered_json& one = value["tensors"].emplace_back(to_json(t));
    one["boxes"] = ordered_json::array();
    for (const ChunkRecord& c : t.chunks)
      one["boxes"].push_back(
          {{"offset", to_json(c.box.offset)}, {"extent", to_json(c.box.extent)}, {"file", c.file}, {"key", c.key}});
  }
  value["files"] = ordered_json::array();
  for (const FileRecord& f : m.files)
    value["files"].push_back({{"path", f.path},
                              {"rank", f.rank},
                              {"bytes", f.bytes},
                              {"header_bytes", f.header_bytes},
                              {"blocks", f.block_xxh128.size()},
                              {"file_root", f.file_root}});
  value["receipts"] = ordered_json::array();
  for (const ReceiptRecord& r : m.receipts)
    value["receipts"].push_back({{"path", r.path}, {"rank", r.rank}, {"bytes", r.bytes}, {"xxh128", r.xxh128}});
  return value;
}

// {"a": 1, "b": [2]} -> "a 1, b [2]"
std::string plain(const std::string& object) {
  std::string text;
  const ordered_json value = ordered_json::parse(object);
  for (const auto& [key, item] : value.items())
    text +=
        fmt::format("{}{} {}", text.empty() ? "" : ", ", key, item.is_string() ? item.get<std::string>() : item.dump());
  return text;
}

void print_classes(const std::vector<StateClass>& classes, int indent) {
  for (const StateClass& c : classes) {
    const std::string label = fmt::format("{:{}}{:<{}} {:<8} ", "", indent, c.name, 24 - indent, c.state);
    std::string where = wrapped(c.where, static_cast<int>(label.size()));
    where = where.size() > label.size() ? where.substr(label.size()) : "\n";
    print_out(label + where);
    print_classes(c.parts, indent + 2);
  }
}

// An unusable one can be looked into as well, as long as its manifest can be read.
void inspect(const CheckpointOptions& o) {
  const std::filesystem::path folder = chosen_checkpoint(o.path, o.step);
  const CheckpointInfo info = inspect_folder(folder);
  const Manifest m = while_there({folder}, [&] { return read_manifest(folder); });
  if (o.json) {
    ordered_json value = to_json(info);
    value.update(to_json(m));
    return print_json(value);
  }
  const std::string marks = marks_of(info);
  print_out(fmt::format("{}\n  step {}, kind {}, {}{}\n", folder.string(), m.step, m.kind, name(info.state),
                        marks.empty() ? "" : ", " + marks));
  print_out(wrapped(info.reason, 2));
  if (info.verified)
    print_out(wrapped(fmt::format("verified {}: {}", date_of(info.verified_ns), info.verified_how), 2));
  if (info.drilled) print_out(wrapped("drilled: " + info.drilled_how, 2));
  if (info.pinned) print_out(wrapped("pinned: " + info.pin_reason, 2));
  for (const std::string& note : info.notes) print_out(wrapped("note: " + note, 2));
  print_out(
      wrapped(fmt::format("saved {} ({}) by run {}, {}, {} in {}", date_of(m.created_ns), m.reason, m.run_id,
                          counted(m.world, "rank"), human_bytes(info.bytes), counted(std::ssize(m.files), "file")),
              2));
  print_out(wrapped(fmt::format("loss {:.6g}, gradient norm {:.6g}, {} and {} consumed", m.scalars.last_loss,
                                m.scalars.last_grad_norm, counted(m.scalars.consumed_samples, "sample"),
                                counted(m.scalars.consumed_tokens, "token")),
                    2));
  if (!m.parent.empty()) print_out(fmt::format("  continues {}\n", m.parent));
  print_out(wrapped(plain(m.topology), 2) + "\nstate classes\n");
  print_classes(m.completeness, 2);
  print_out(fmt::format("\n{}\n  {:<44} {:<11} {:<5} {:<16} {}\n", counted(std::ssize(m.tensors), "tensor"), "name",
                        "role", "dtype", "shape", "stored"));
  const size_t shown = o.all_tensors ? m.tensors.size() : std::min<size_t>(m.tensors.size(), 24);
  for (size_t i = 0; i < shown; ++i) {
    const TensorRecord& t = m.tensors[i];
    const std::string stored = !t.alias_of.empty()            ? "as " + t.alias_of
                               : !t.derived_from_role.empty() ? "cast of " + t.derived_from_role
                                                              : counted(std::ssize(t.chunks), "part");
    const std::string line =
        fmt::format("  {:<44} {:<11} {:<5} {:<16} {}", t.name, t.role, name(t.dtype), to_string(t.shape), stored);
    print_out((o.all_tensors ? line : clipped(line, kTableColumns - 3)) + "\n");
  }
  if (shown < m.tensors.size()) print_out(fmt::format("  ... {} more (--tensors)\n", m.tensors.size() - shown));
}

void diff(const CheckpointOptions& o) {
  const std::filesystem::path a = chosen_checkpoint(o.path, std::nullopt), b = chosen_checkpoint(o.other, std::nullopt);
  const CheckpointDifference d = while_there({a, b}, [&] { return diff_checkpoints(a, b, progress_bar("comparing")); });
  const int64_t not_comparable = std::ssize(d.tensors) - d.differing;
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
                       {"differ", d.differing},
                       {"not_comparable", not_comparable},
                       {"scalars", d.scalars},
                       {"tensors", tensors}});
  }
  for (const std::string& scalar : d.scalars) print_out(wrapped(scalar, 0));
  for (const TensorDifference& t : d.tensors)
    print_out(wrapped(fmt::format("{} ({}): {}{}{}", t.name, t.role, t.what,
                                  t.elements > 0 ? " in " + counted(t.elements, "element") : std::string(),
                                  t.max_abs ? fmt::format(", by at most {:.6g}", *t.max_abs) : std::string()),
                      0));
  print_out(fmt::format(
      "{} compared, {}{}{}\n", counted(d.compared, "tensor"), counted(d.differing, "differs", "differ"),
      not_comparable > 0 ? fmt::format("; {} not comparable (in one checkpoint alone, or of another shape or dtype)",
                                       counted(not_comparable, "tensor"))
                         : "",
      d.same() ? "; the checkpoints hold the same state" : ""));
}

}  // namespace

void add_checkpoint_command(CLI::App& app) {
  CLI::App* group =
      app.add_subcommand("checkpoint",
                         "Look into, prove, compare, mark, remove, rescue, export and import checkpoints.\n"
                         "PATH is a run directory, its checkpoints folder, or one checkpoint (step-...). Of a run the\n"
                         "newest usable one is taken; newer ones that are passed over are named with the reason.");
  group->require_subcommand(1);
  add_examples(*group, {"trainctl checkpoint list runs/llama_tiny_text/1",
                        "trainctl checkpoint verify --full runs/llama_tiny_text/1 --step 200"});
  auto options = std::make_shared<CheckpointOptions>();

  CLI::App* one = add_checkpoint_subcommand(
      *group, options, "list", "Steps, kinds, sizes, marks, and which can be used or why not", list,
      {"trainctl checkpoint list runs/llama_tiny_text/1", "trainctl checkpoint list checkpoints --json"});
  add_checkpoint_path(one, options);
  one->add_flag("--closely", options->closely, "Read every manifest and receipt, not only markers and sizes");

  one = add_checkpoint_subcommand(*group, options, "inspect",
                                  "Tensors, state classes, topology and scalars of one checkpoint", inspect,
                                  {"trainctl checkpoint inspect runs/llama_tiny_text/1 --step 200"});
  add_checkpoint_path(one, options, "the newest usable one");
  one->add_flag("--tensors", options->all_tensors, "List every tensor");

  one = add_checkpoint_subcommand(
      *group, options, "diff",
      "Compare the tensors and scalars of two checkpoints; layouts do not matter. Exit 0 also when they differ", diff,
      {"trainctl checkpoint diff run/checkpoints/step-00000100 run/checkpoints/step-00000200"});
  one->add_option("a", options->path, "First checkpoint (a run: its newest usable one)")->required();
  one->add_option("b", options->other, "Second checkpoint")->required();

  add_checkpoint_care_commands(*group, options);
  add_checkpoint_export_command(*group);
  add_checkpoint_import_command(*group);
}

}  // namespace trainctl
