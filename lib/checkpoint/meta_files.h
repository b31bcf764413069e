// lib/checkpoint/meta_files.h -- the small files of a checkpoint's meta/ folder: a model's configuration, a tokenizer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/format.h"

namespace trainctl {

inline constexpr int64_t kMaxMetaFileBytes = int64_t{64} << 20;

// One entry of the manifest's provenance.meta: {"meta/tokenizer.json": {"bytes": ..., "sha256": ...}}.
struct MetaFile {
  std::string path;
  int64_t bytes = 0;
  std::string sha256;
};

// Empty for a state that has none. Throws Error{checkpoint} for records that are not well formed.
std::vector<MetaFile> meta_files(const Manifest& manifest);

// The content, compared with its record. Throws Error{checkpoint} naming the file.
std::string read_meta_file(const std::filesystem::path& checkpoint, const MetaFile& file);

}  // namespace trainctl
