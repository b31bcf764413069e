// apps/trainctl/checkpoint_cli.h -- what the files of `trainctl checkpoint` share: options, texts, a progress bar.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "checkpoint/verify.h"
#include "cli.h"

namespace trainctl {

struct CheckpointOptions {
  std::string path, other, verdict, reason;
  std::optional<int64_t> step;
  int64_t keep = 0, keep_every_steps = 0;
  bool json = false, full = false, all_tensors = false, dry_run = false, closely = false;
};

nlohmann::ordered_json to_json(const CheckpointInfo& info);
nlohmann::ordered_json to_json(const std::vector<StateClass>& classes);
std::string marks_of(const CheckpointInfo& info);  // "verified, pinned"; "" without either

inline constexpr int kTableColumns = 100;
// Words of `text` in lines of at most kTableColumns, each after `indent` blanks; a longer word has its own line.
std::string wrapped(std::string_view text, int indent);
std::string date_of(int64_t ns);  // "2025-03-01 12:00:00 UTC"

// choose_checkpoint, told: the newer checkpoints of the run that were passed over, and why, are warnings on stderr.
std::filesystem::path chosen_checkpoint(const std::filesystem::path& path, std::optional<int64_t> step,
                                        const WhyNot& why_not = unless_usable);

// Throws Error{environment} for a checkpoint that may not be read: it can be neither judged nor used.
void ensure_readable(const CheckpointInfo& info);

// After a failure at `folder`: throws Error{checkpoint} when that is because it was removed meanwhile.
void ensure_not_removed(const std::filesystem::path& folder);

// What `read` gives, which reads or marks the checkpoints `folders`.
template <typename Read>
auto while_there(const std::vector<std::filesystem::path>& folders, Read read) {
  try {
    return read();
  } catch (const Error&) {
    for (const std::filesystem::path& folder : folders) ensure_not_removed(folder);
    throw;
  }
}

// On a terminal a bar on stderr with percent, bytes and rate, wiped at the end; elsewhere nothing.
Progress progress_bar(std::string_view what);

CLI::App* add_checkpoint_subcommand(CLI::App& group, const std::shared_ptr<CheckpointOptions>& options,
                                    const std::string& name, const std::string& text,
                                    void (*run)(const CheckpointOptions&), const std::vector<std::string>& examples);
// PATH, and where `without_step` says what its absence means also --step.
void add_checkpoint_path(CLI::App* command, const std::shared_ptr<CheckpointOptions>& options,
                         const std::string& without_step = "");

void add_checkpoint_care_commands(CLI::App& group, const std::shared_ptr<CheckpointOptions>& options);

}  // namespace trainctl
