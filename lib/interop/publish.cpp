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
#include "base/file_error.h"
#include "checkpoint/posix_io.h"

namespace trainctl {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kMaxRecord = 64 << 20;

// Hands `output` back, so that it is checked before anything is made beside it.
const fs::path& check_replaceable(const fs::path& output) {
  const fs::file_status status = fs::symlink_status(output);  // throws when it cannot be told
  if (status.type() == fs::file_type::not_found) return output;
  if (status.type() != fs::file_type::directory)
    fail(ErrorKind::usage, fmt::format("--output {} exists and is not a folder; name another", output.string()));
  if (fs::is_empty(output)) return output;  // throws when it may not be read
  const std::vector<std::string> names = names_in(output);
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
  return output;
}

[[noreturn]] void cannot_move(const fs::path& from, const fs::path& to, int code) {
  throw file_error(ErrorKind::environment, fmt::format("move {} to", from.string()), to, code);
}

}  // namespace

PublishedFolder::PublishedFolder(const fs::path& output)
    : output_(output_folder(output, "--output")), folder_(check_replaceable(output_), "export") {}

void PublishedFolder::publish() {
  ensure(fs::exists(folder() / kExportRecord), "an export without its record");
  check_replaceable(output_);  // again: writing took a while
  folder_.seal();
  const bool replaces = fs::exists(output_) && !names_in(output_).empty();
  if (!replaces) {
    if (::rename(folder().c_str(), output_.c_str()) != 0) cannot_move(folder(), output_, errno);
  } else if (::renameat2(AT_FDCWD, folder().c_str(), AT_FDCWD, output_.c_str(), RENAME_EXCHANGE) == 0) {
    remove_tree(folder());  // now the earlier export
  } else {
    if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP) cannot_move(folder(), output_, errno);
    const fs::path old = folder_.another();
    if (::rename(output_.c_str(), old.c_str()) != 0) cannot_move(output_, old, errno);
    if (::rename(folder().c_str(), output_.c_str()) != 0) {
      const int code = errno;
      if (::rename(old.c_str(), output_.c_str()) != 0) cannot_move(old, output_, errno);
      cannot_move(folder(), output_, code);
    }
    remove_tree(old);
  }
  folder_.moved();
  sync_directory(output_.parent_path());
}

}  // namespace trainctl
