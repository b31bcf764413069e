// lib/interop/export_record.h -- trainctl_export.json: what an export to a Hugging Face folder says about itself, with
// the digest of every file it wrote.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "checkpoint/verify.h"

namespace trainctl {

inline constexpr std::string_view kExportRecord = "trainctl_export.json";  // {"format":"trainctl_export","files":[...]}

struct FileDigest {
  int64_t bytes = 0;
  std::string xxh128;  // of the whole file
  bool operator==(const FileDigest&) const = default;
};
using FileDigests = std::map<std::string, FileDigest>;  // by name in the folder

// The digest of a regular file, read in pieces of 1 MiB; `progress` may be told of each piece's bytes. Throws
// Error{checkpoint} when it cannot be read.
FileDigest digest_of_file(const std::filesystem::path& path, const std::function<void(int64_t)>& read = {});

// The files of an export of ours that an import reads, compared with the record's digests; returns how many. 0 where
// there is nothing to compare with: no record in the folder, or one of an earlier version, which has no digests.
// README.md, of which nothing is imported, may change. Throws Error{input} naming every file that differs, with both
// sizes or digests, and what to do; or when the record itself cannot be read.
int64_t check_export_record(const std::filesystem::path& folder, const Progress& progress = {});

}  // namespace trainctl
