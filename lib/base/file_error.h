// lib/base/file_error.h -- what the kernel says about a file, as an error that a user can act on.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/error.h"

namespace trainctl {

// The kernel's words for `code` (an errno), and where something is generally of help what to do, e.g. "File name too
// long; a name may have 255 bytes and a path 4095: use a shorter one".
std::string words_of_errno(int code);

// `otherwise`; but input instead of environment when the name that was given is at fault, whatever was done with it:
// too long, through a file, a circle of links.
ErrorKind kind_of_errno(int code, ErrorKind otherwise);

// "cannot <action> <path>: <words_of_errno>", of kind_of_errno(code, otherwise).
Error file_error(ErrorKind otherwise, std::string_view action, const std::filesystem::path& path, int code);

// The same of a call of std::filesystem that threw, with its operation; otherwise: environment. For a program's last
// handler.
Error file_error(const std::filesystem::filesystem_error& error);

// True for a folder, also through links; false when nothing or something else is there. Throws file_error (otherwise:
// environment) when that cannot be told.
bool is_folder(const std::filesystem::path& path);

// "" for a folder, also through links; else what is there, to follow its name: "does not exist", "is a link to
// ELSEWHERE, which does not exist", "is a file, not a folder". Throws as is_folder.
std::string why_no_folder(const std::filesystem::path& path);

}  // namespace trainctl
