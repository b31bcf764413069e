// lib/launch/run_directory.cpp -- naming, locking and filling a run directory.
#include "launch/run_directory.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <thread>

#include "base/config_io.h"
#include "base/error.h"

namespace trainctl {
namespace fs = std::filesystem;
namespace {

std::string local_time(std::chrono::system_clock::time_point now, const char* format) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm fields{};
  ::localtime_r(&seconds, &fields);
  char text[64];
  return std::string(text, std::strftime(text, sizeof text, format, &fields));
}

std::string lock_note() {
  char host[256] = "?";
  ::gethostname(host, sizeof host - 1);
  return fmt::format("pid {} on {}, since {}", ::getpid(), host,
                     local_time(std::chrono::system_clock::now(), "%Y-%m-%d %H:%M:%S"));
}

// Ranks outlive a killed launcher by a moment, or longer when one hangs in the kernel: two sets of them must never
// write into one run.
void wait_for_earlier_ranks(const RunPaths& paths, double limit_s) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(limit_s);
  for (std::string holder;; std::this_thread::sleep_for(std::chrono::milliseconds(20))) {
    FileLock none_left;
    if (none_left.try_acquire(paths.ranks_lock(), lock_note(), &holder)) return;
    if (Clock::now() >= end)
      fail(ErrorKind::environment,
           fmt::format("ranks of an earlier launch still work in {} ({} was the last of them to start); end them, then "
                       "give the same command again",
                       paths.root.string(), holder.empty() ? "unknown" : holder));
  }
}

// True for what a launch leaves that was killed before it wrote launch.json, or refused before the first step: its
// locks, logs and reports, and what write_run_files puts there, without a checkpoint.
bool is_of_a_killed_start(const RunPaths& paths, const fs::directory_entry& entry) {
  std::error_code ignored;
  const fs::path path = entry.path();
  if (path == paths.lock() || path == paths.ranks_lock()) return true;
  if (!fs::exists(paths.lock(), ignored)) return false;
  if (path == paths.checkpoints()) return fs::is_empty(path, ignored);
  if (path == paths.logs() || path == paths.errors() || path == paths.events()) return true;
  for (const fs::path& file : {paths.recipe(), paths.plan(), paths.launch()})
    if (path == file || path.string().starts_with(file.string() + ".tmp.")) return true;
  return false;
}

// Something that only a run with steps leaves.
bool has_steps(const RunPaths& paths) {
  std::error_code absent;
  if (fs::file_size(paths.metrics(), absent) > 0 && !absent) return true;
  const fs::directory_iterator entries(paths.checkpoints(), absent);
  return std::any_of(begin(entries), end(entries), [](const fs::directory_entry& entry) {
    return entry.path().filename().string().starts_with("step-");
  });
}

void refuse_foreign_files(const RunPaths& paths) {
  const fs::path& root = paths.root;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(root, ignored)) {
    const std::string file = entry.path().filename().string();
    if (is_of_a_killed_start(paths, entry)) continue;
    fail(ErrorKind::usage,
         fmt::format("--run-dir {} is no run directory: it has {} but no launch.json; {}", root.string(),
                     in_quotes(file), has_steps(paths) ? kWithoutLaunchJson : "choose a new or empty folder"));
  }
}

}  // namespace

fs::path default_run_directory(const std::string& recipe_name, std::chrono::system_clock::time_point now, bool claim) {
  const fs::path base = fs::path("runs") / recipe_name / local_time(now, "%Y%m%d-%H%M%S");
  if (claim) make_directories(base.parent_path());
  fs::path path = base;
  std::error_code error;
  const auto taken = [&] { return claim ? !fs::create_directory(path, error) && !error : fs::exists(path); };
  for (int n = 2; taken(); ++n) path = base.string() + fmt::format("-{}", n);
  if (error) fail(ErrorKind::environment, fmt::format("cannot make {}: {}", path.string(), error.message()));
  return path;
}

void check_resume(const std::string& resume, const std::function<std::string()>& what_is_there) {
  if (resume == "auto" || resume == "never") return;
  std::error_code ignored;
  if (fs::is_directory(resume, ignored)) return;
  fail(ErrorKind::checkpoint,
       fmt::format("--resume {}: there is no such checkpoint folder; {}use auto (the newest usable one of the run "
                   "directory), never, or a folder",
                   resume, what_is_there ? what_is_there() + "; " : ""));
}

bool has_begun(const RunPaths& paths) {
  std::error_code absent;
  return fs::exists(paths.launch(), absent) && has_steps(paths);
}

void check_run_files(const RunPaths& paths) {
  const auto check = [](const fs::path& path, bool folder) {
    std::error_code unknown;
    const fs::file_status own = fs::symlink_status(path, unknown), status = fs::status(path, unknown);
    if (own.type() == fs::file_type::not_found) return;
    if (status.type() == (folder ? fs::file_type::directory : fs::file_type::regular)) return;
    if (status.type() == fs::file_type::none || status.type() == fs::file_type::unknown)
      return;  // told when it is used
    if (status.type() == fs::file_type::not_found)
      fail(ErrorKind::environment,
           fmt::format("{} is a link to {}, which is not there; put that back, or remove the link", path.string(),
                       in_quotes(fs::read_symlink(path, unknown).string())));
    fail(
        ErrorKind::environment,
        fmt::format("{} is {}, and a run has a {} there; move it away, then give the same command again", path.string(),
                    status.type() == fs::file_type::directory ? "a folder"
                    : status.type() == fs::file_type::regular ? "a file"
                    : status.type() == fs::file_type::fifo    ? "a pipe"
                                                              : "a device or a socket",
                    folder ? "folder" : "file"));
  };
  for (const fs::path& file : {paths.launch(), paths.recipe(), paths.plan(), paths.counters(), paths.metrics(),
                               paths.samples(), paths.events(), paths.stop_request(), paths.lock(), paths.ranks_lock()})
    check(file, false);
  for (const fs::path& folder : {paths.checkpoints(), paths.logs(), paths.errors()}) check(folder, true);
}

RunDirectory open_run_directory(const fs::path& root, const std::string& resume, double ranks_limit_s) {
  RunDirectory directory;
  directory.paths.root = fs::absolute(root).lexically_normal();
  check_resume(resume);
  std::error_code ignored;
  if (fs::exists(root, ignored) && !fs::is_directory(root, ignored))
    fail(ErrorKind::usage, fmt::format("--run-dir {} is a file; a folder is needed", root.string()));
  if (!fs::exists(directory.paths.launch(), ignored))
    refuse_foreign_files(directory.paths);  // before anything is put there
  make_directories(directory.paths.root);
  std::string holder;
  if (!directory.lock.try_acquire(directory.paths.lock(), lock_note(), &holder))
    fail(ErrorKind::environment,
         fmt::format("the run directory {} is in use by another launcher ({}); wait for it, stop it, or "
                     "choose another --run-dir",
                     directory.paths.root.string(), holder.empty() ? "unknown" : holder));
  wait_for_earlier_ranks(directory.paths, ranks_limit_s);
  directory.continues = has_begun(directory.paths);  // another launcher may just have let go of it
  if (directory.continues && resume == "never")
    fail(ErrorKind::usage, fmt::format("--resume never: {} already holds a run; use --resume auto to continue it, or "
                                       "another --run-dir to start again",
                                       directory.paths.root.string()));
  return directory;
}

void write_run_files(const RunPaths& paths, const Job& job, const std::string& plan_json) {
  std::error_code ignored;
  fs::remove(paths.stop_request(), ignored);
  fs::remove_all(paths.errors(), ignored);
  make_directories(paths.logs());
  make_directories(paths.errors());
  make_directories(paths.checkpoints());
  write_file_atomically(behind_links(paths.recipe()), write_config(job.recipe).dump(2) + "\n");
  write_file_atomically(behind_links(paths.plan()), plan_json);
  save_job(job, paths.launch());
}

std::vector<std::string> recipe_changes(const Recipe& before, const Recipe& now) {
  std::vector<std::string> changes;
  const nlohmann::json was = nlohmann::json(write_config(before)).flatten();
  const nlohmann::json is = nlohmann::json(write_config(now)).flatten();
  const auto dotted = [](std::string pointer) {
    std::replace(pointer.begin(), pointer.end(), '/', '.');
    return pointer.substr(1);
  };
  for (const auto& [key, value] : is.items())
    if (!was.contains(key))
      changes.push_back(dotted(key) + ": " + value.dump() + " added");
    else if (was.at(key) != value)
      changes.push_back(dotted(key) + ": " + was.at(key).dump() + " -> " + value.dump());
  for (const auto& [key, value] : was.items())
    if (!is.contains(key)) changes.push_back(dotted(key) + ": " + value.dump() + " removed");
  return changes;
}

std::string recipe_file_remark(const RunPaths& paths, const Recipe& before) {
  std::string what;
  std::error_code unknown;
  if (!fs::exists(paths.recipe(), unknown)) {
    what = "is not there";
  } else {
    try {
      Recipe recorded;
      ConfigSource source;
      source.source = paths.recipe().string();
      std::vector<Fault> faults;
      read_config(parse_json_file(paths.recipe()), recorded, source, faults);
      refuse_faults(source.source, faults);
      const std::vector<std::string> changes = recipe_changes(before, recorded);
      if (!changes.empty()) what = fmt::format("is not what the last launch wrote ({})", fmt::join(changes, "; "));
    } catch (const Error& e) {
      const std::string why = e.what();
      what = fmt::format("cannot be read ({})", why.substr(0, why.find('\n')));
    }
  }
  if (what.empty()) return "";
  return fmt::format("{} {}; the recipe of the run so far is in {}, and recipe.json is written anew",
                     paths.recipe().string(), what, paths.launch().string());
}

}  // namespace trainctl
