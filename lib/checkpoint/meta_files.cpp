// lib/checkpoint/meta_files.cpp -- their records, and reading them.
#include "checkpoint/meta_files.h"

#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/json_fields.h"
#include "checkpoint/posix_io.h"

namespace trainctl {
namespace fs = std::filesystem;

std::vector<MetaFile> meta_files(const Manifest& manifest) {
  const JsonNode provenance = parse_checkpoint_json(manifest.provenance, "the manifest's provenance");
  const JsonNode* meta = provenance.find("meta");
  std::vector<MetaFile> files;
  if (meta == nullptr) return files;
  const JsonFields fields(*meta, "the manifest", "provenance.meta");
  if (const auto* members = meta->as<JsonNode::Object>())
    for (const JsonNode::Member& member : *members) {
      if (!member.key.starts_with("meta/") || !is_safe_relative_path(member.key))
        fields.refuse(member.key, "is no plain path below meta/");
      const JsonFields one = fields.object(member.key);
      files.push_back({member.key, one.integer("bytes", 0, kMaxMetaFileBytes), one.hex("sha256", 64)});
    }
  return files;
}

std::string read_meta_file(const fs::path& checkpoint, const MetaFile& file) {
  const fs::path path = checkpoint / file.path;
  if (fs::symlink_status(path.parent_path()).type() != fs::file_type::directory)
    fail(ErrorKind::checkpoint, fmt::format("{} is no plain folder", path.parent_path().string()));
  const std::string content = read_small_file(path, kMaxMetaFileBytes);
  if (static_cast<int64_t>(content.size()) != file.bytes || sha256_hex(content) != file.sha256)
    fail(ErrorKind::checkpoint,
         fmt::format("{} is not the file that was imported (its SHA-256 differs from the manifest's)", path.string()));
  return content;
}

}  // namespace trainctl
