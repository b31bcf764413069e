// lib/checkpoint/meta_files.h -- the small files of a checkpoint's meta/ folder: a model's configuration, a tokenizer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "checkpoint/format.h"

namespace trainctl {

inline constexpr int64_t kMaxMetaFileBytes = int64_t{64} << 20;

// The content, compared with its record in the manifest. Throws Error{checkpoint} naming the file.
std::string read_meta_file(const std::filesystem::path& checkpoint, const MetaRecord& file);

}  // namespace trainctl
