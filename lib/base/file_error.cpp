// lib/base/file_error.cpp -- errno in words.
#include "base/file_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace trainctl {
namespace fs = std::filesystem;
namespace {

bool working_directory_is_gone() {
  std::error_code code;
  const fs::path ignored = fs::current_path(code);
  return code == std::errc::no_such_file_or_directory;
}

std::string remedy(int code) {
  switch (code) {
    case ENAMETOOLONG:
      return "a name may have 255 bytes and a path 4095: use a shorter one";
    case ELOOP:
      return "its links lead in a circle: name what is meant itself";
    case ENOTDIR:
      return "a part of the path is a file";
    case EACCES:
    case EPERM:
      return "use a place that this user may read and write, or ask its owner";
    case EROFS:
      return "use a place that can be written";
    case ENOSPC:
    case EDQUOT:
      return "make room, or use another file system";
    case EMFILE:
    case ENFILE:
      return "raise the limit of open files (ulimit -n)";
    case EIO:
      return "the disk or the connection to it fails: look at the kernel's log (dmesg)";
    case ENOENT:
      return working_directory_is_gone() ? "the working directory was deleted: change into one that exists" : "";
    default:
      return "";
  }
}

}  // namespace

std::string words_of_errno(int code) {
  const std::string what_to_do = remedy(code);
  return std::generic_category().message(code) + (what_to_do.empty() ? "" : "; ") + what_to_do;
}

ErrorKind kind_of_errno(int code, ErrorKind otherwise) {
  const bool name_is_wrong = code == ENAMETOOLONG || code == ELOOP || code == ENOTDIR;
  return otherwise == ErrorKind::environment && name_is_wrong ? ErrorKind::input : otherwise;
}

Error file_error(ErrorKind otherwise, std::string_view action, const fs::path& path, int code) {
  return Error(kind_of_errno(code, otherwise),
               fmt::format("cannot {} {}: {}", action, path.string(), words_of_errno(code)));
}

Error file_error(const fs::filesystem_error& error) {
  // what() is "filesystem error: <operation>: <cause> [<path>] [<path>]".
  std::string operation = error.what();
  constexpr std::string_view kPrefix = "filesystem error: ";
  if (operation.starts_with(kPrefix)) operation.erase(0, kPrefix.size());
  operation.erase(std::min(operation.size(), operation.find(": " + error.code().message())));
  std::string path = error.path1().empty() ? "the working directory" : error.path1().string();
  if (!error.path2().empty()) path += " and " + error.path2().string();
  const int code = error.code().value();
  return Error(kind_of_errno(code, ErrorKind::environment),
               fmt::format("cannot access {} ({}): {}", path, operation, words_of_errno(code)));
}

bool is_folder(const fs::path& path) {
  std::error_code code;
  const fs::file_status status = fs::status(path, code);
  if (status.type() == fs::file_type::none) throw file_error(ErrorKind::environment, "look at", path, code.value());
  return status.type() == fs::file_type::directory;
}

std::string why_no_folder(const fs::path& path) {
  if (is_folder(path)) return "";
  std::error_code code;
  const bool link = fs::is_symlink(fs::symlink_status(path, code)), there = fs::exists(path, code);
  std::string text = "is ";
  if (link) {
    const fs::path target = fs::read_symlink(path, code);
    text += fmt::format("a link to {}, which ", code ? "another place" : target.string()) + (there ? "is " : "");
  }
  if (!there) return link ? text + "does not exist" : "does not exist";
  return text + (fs::is_regular_file(path, code) ? "a file, not a folder" : "no folder");
}

}  // namespace trainctl
