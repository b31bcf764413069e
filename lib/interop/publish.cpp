// lib/interop/publish.cpp -- the hidden sibling, its lock, and the exchange.
#include "interop/publish.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/posix_io.h"

namespace trainctl {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kLockName = ".writing";
constexpr int64_t kMaxRecord = 64 << 20;

std::string prefix_of(const fs::path& output) { return "." + output.filename().string() + ".trainctl-export-"; }

void check_replaceable(const fs::path& output) {
  std::error_code code;
  const fs::file_status status = fs::symlink_status(output, code);
  if (status.type() == fs::file_type::not_found) return;
  if (status.type() != fs::file_type::directory)
    fail(ErrorKind::usage, fmt::format("--output {} exists and is not a folder; name another", output.string()));
  const std::vector<std::string> names = names_in(output);
  if (names.empty()) return;
  std::vector<std::string> known{std::string(kExportRecord)};
  bool ours = false;
  if (std::find(names.begin(), names.end(), kExportRecord) != names.end()) {
    const auto record = nlohmann::json::parse(read_small_file(output / kExportRecord, kMaxRecord), nullptr, false);
    if (record.is_object() && record.value("format", nlohmann::json()) == "trainctl_export" &&
        record.contains("files") && record["files"].is_array()) {
      ours = true;
      for (const auto& file : record["files"])
        if (file.is_string()) known.push_back(file.get<std::string>());
    }
  }
  if (!ours)
    fail(ErrorKind::usage, fmt::format("--output {} is not empty and not an export of trainctl; it is left alone. Name "
                                       "a new or an empty folder",
                                       output.string()));
  std::string foreign;
  for (const std::string& name : names)
    if (std::find(known.begin(), known.end(), name) == known.end()) foreign += (foreign.empty() ? "" : ", ") + name;
  if (!foreign.empty())
    fail(ErrorKind::usage, fmt::format("--output {} is an earlier export that now also holds {}; replacing it would "
                                       "delete that. Move it away, or name another folder",
                                       output.string(), foreign));
}

// Siblings whose writer is gone: their lock can be had.
void remove_leftovers(const fs::path& output) {
  const fs::path parent = output.parent_path();
  for (const std::string& name : names_in(parent)) {
    if (!name.starts_with(prefix_of(output))) continue;
    FileLock lock;
    std::string holder;
    if (fs::exists(parent / name / kLockName) && !lock.try_acquire(parent / name / kLockName, "", &holder)) continue;
    remove_tree(parent / name);
  }
}

[[noreturn]] void cannot_move(const fs::path& from, const fs::path& to, int code) {
  fail(ErrorKind::environment,
       fmt::format("cannot move {} to {}: {}", from.string(), to.string(), std::generic_category().message(code)));
}

}  // namespace

PublishedFolder::PublishedFolder(const fs::path& output) : output_(fs::absolute(output).lexically_normal()) {
  if (output_.filename().empty()) output_ = output_.parent_path();  // a trailing slash
  if (output_.filename().empty()) fail(ErrorKind::usage, "--output is the root folder; name a new one");
  check_replaceable(output_);
  make_directories(output_.parent_path());
  remove_leftovers(output_);
  folder_ = output_.parent_path() / (prefix_of(output_) + random_hex(12));
  make_directories(folder_);
  std::string holder;
  ensure(lock_.try_acquire(folder_ / kLockName, "export", &holder), "somebody else locked a folder with a random name");
}

PublishedFolder::~PublishedFolder() {
  if (!published_) remove_tree(folder_);
}

void PublishedFolder::publish() {
  ensure(fs::exists(folder_ / kExportRecord), "an export without its record");
  check_replaceable(output_);  // again: writing took a while
  fs::remove(folder_ / kLockName);
  sync_directory(folder_);
  const bool replaces = fs::exists(output_) && !names_in(output_).empty();
  if (!replaces) {
    if (::rename(folder_.c_str(), output_.c_str()) != 0) cannot_move(folder_, output_, errno);
  } else if (::renameat2(AT_FDCWD, folder_.c_str(), AT_FDCWD, output_.c_str(), RENAME_EXCHANGE) == 0) {
    remove_tree(folder_);  // now the earlier export
  } else {
    if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP) cannot_move(folder_, output_, errno);
    const fs::path old = output_.parent_path() / (prefix_of(output_) + random_hex(12));
    if (::rename(output_.c_str(), old.c_str()) != 0) cannot_move(output_, old, errno);
    if (::rename(folder_.c_str(), output_.c_str()) != 0) {
      const int code = errno;
      if (::rename(old.c_str(), output_.c_str()) != 0) cannot_move(old, output_, errno);
      cannot_move(folder_, output_, code);
    }
    remove_tree(old);
  }
  published_ = true;
  sync_directory(output_.parent_path());
}

}  // namespace trainctl
