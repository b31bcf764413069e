// lib/checkpoint/meta_files.cpp -- reading them.
#include "checkpoint/meta_files.h"

#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/posix_io.h"

namespace trainctl {
namespace fs = std::filesystem;

std::string read_meta_file(const fs::path& checkpoint, const MetaRecord& file) {
  const fs::path path = checkpoint / file.path;
  if (fs::symlink_status(path.parent_path()).type() != fs::file_type::directory)
    fail(ErrorKind::checkpoint, fmt::format("{} is no plain folder", path.parent_path().string()));
  std::string content = read_small_file(path, kMaxMetaFileBytes);
  if (static_cast<int64_t>(content.size()) != file.bytes || xxh128_hex(content.data(), content.size()) != file.xxh128)
    fail(ErrorKind::checkpoint, fmt::format("{} does not have the digest that the manifest expects", path.string()));
  return content;
}

}  // namespace trainctl
