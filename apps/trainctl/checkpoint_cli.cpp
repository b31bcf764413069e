// apps/trainctl/checkpoint_cli.cpp -- texts of `trainctl checkpoint`.
#include "checkpoint_cli.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/units.h"

namespace trainctl {

using nlohmann::ordered_json;

ordered_json to_json(const CheckpointInfo& info) {
  ordered_json value = {{"folder", info.folder.string()},
                        {"step", info.step},
                        {"kind", info.kind},
                        {"state", name(info.state)},
                        {"reason", info.reason},
                        {"bytes", info.bytes},
                        {"attempt", info.attempt},
                        {"manifest_sha256", info.manifest_sha256},
                        {"verified", info.verified},
                        {"drilled", info.drilled},
                        {"pinned", info.pinned},
                        {"notes", info.notes}};
  if (info.verified) value["verified_how"] = info.verified_how, value["verified_ns"] = info.verified_ns;
  if (info.drilled) value["drilled_how"] = info.drilled_how;
  if (info.pinned) value["pin_reason"] = info.pin_reason;
  return value;
}

ordered_json to_json(const std::vector<StateClass>& classes) {
  ordered_json value = ordered_json::object();
  for (const StateClass& c : classes) {
    ordered_json& one = value[c.name] = {{"state", c.state}, {"where", c.where}};
    if (!c.parts.empty()) one["parts"] = to_json(c.parts);
  }
  return value;
}

std::string marks_of(const CheckpointInfo& info) {
  std::string marks;
  for (const auto& [set, word] :
       {std::pair(info.verified, "verified"), {info.drilled, "drilled"}, {info.pinned, "pinned"}})
    if (set) marks += (marks.empty() ? "" : ", ") + std::string(word);
  return marks;
}

std::string wrapped(std::string_view text, int indent) {
  const std::string blanks(static_cast<size_t>(indent), ' ');
  std::string out, line;
  const auto flush = [&] {
    if (!line.empty()) out += blanks + line + "\n";
    line.clear();
  };
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find_first_of(" \n", begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    if (!word.empty()) {
      if (!line.empty() && indent + static_cast<int>(line.size() + 1 + word.size()) > kTableColumns) flush();
      line += (line.empty() ? "" : " ") + std::string(word);
    }
    if (end < text.size() && text[end] == '\n') flush();
    begin = end + 1;
  }
  flush();
  return out;
}

std::string date_of(int64_t ns) {
  const std::time_t seconds = static_cast<std::time_t>(ns / 1'000'000'000);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text;
}

std::filesystem::path chosen_checkpoint(const std::filesystem::path& path, std::optional<int64_t> step,
                                        const WhyNot& why_not) {
  constexpr size_t kShown = 8;
  const ChosenCheckpoint chosen = choose_checkpoint(path, step, why_not);
  const std::vector<std::string>& passed = chosen.passed_over;
  for (size_t i = 0; i < std::min(passed.size(), kShown); ++i) print_error("warning", "passed over " + passed[i]);
  if (passed.size() > kShown) print_error("warning", fmt::format("passed over {} more", passed.size() - kShown));
  if (!passed.empty()) print_error("warning", fmt::format("{} is taken", chosen.folder.string()));
  return chosen.folder;
}

void ensure_not_removed(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (std::filesystem::symlink_status(folder, ignored).type() != std::filesystem::file_type::not_found) return;
  fail(ErrorKind::checkpoint,
       fmt::format("{} was removed meanwhile: a run in progress keeps its newest checkpoint.keep states; take a "
                   "newer one, or keep one first: trainctl checkpoint mark pin PATH --reason WHY",
                   folder.string()));
}

Progress progress_bar(std::string_view what) {
  if (!::isatty(STDERR_FILENO)) return {};
  using Clock = std::chrono::steady_clock;
  return
      [what = std::string(what), shown = std::make_shared<int>(-1), start = Clock::now()](int64_t done, int64_t total) {
        const double part = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 1;
        const int percent = static_cast<int>(100 * part);
        if (percent == *shown) return;
        *shown = percent;
        if (done >= total) {
          std::fputs("\r\033[K", stderr);
        } else {
          const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
          const auto rate = static_cast<int64_t>(static_cast<double>(done) / std::max(seconds, 1e-3));
          const std::string bar(static_cast<size_t>(30 * part), '#');
          std::fprintf(stderr, "\r%s [%-30s] %3d %%  %s of %s  %s/s\033[K", what.c_str(), bar.c_str(), percent,
                       human_bytes(done).c_str(), human_bytes(total).c_str(), human_bytes(rate).c_str());
        }
        std::fflush(stderr);
      };
}

CLI::App* add_checkpoint_subcommand(CLI::App& group, const std::shared_ptr<CheckpointOptions>& options,
                                    const std::string& name, const std::string& text,
                                    void (*run)(const CheckpointOptions&), const std::vector<std::string>& examples) {
  CLI::App* cmd = group.add_subcommand(name, text);
  cmd->add_flag("--json", options->json, "Machine-readable output");
  cmd->callback([options, run] { run(*options); });
  add_examples(*cmd, examples);
  return cmd;
}

void add_checkpoint_path(CLI::App* cmd, const std::shared_ptr<CheckpointOptions>& options,
                         const std::string& without_step) {
  cmd->add_option("path", options->path, "Run directory, checkpoints folder or checkpoint")->required();
  if (!without_step.empty())
    cmd->add_option(
           "--step", options->step,
           "Which one of a run (one that another of its step has superseded: its folder as PATH); without it " +
               without_step)
        ->transform(whole_number(0));
}

}  // namespace trainctl
