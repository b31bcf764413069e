// tests/fuzz/manifest_target.cpp -- manifest.json: what is taken lies inside its files, covers its tensors, and is
// written back as it was read.
#include "base/error.h"
#include "checkpoint/format.h"
#include "checkpoint/posix_io.h"
#include "fuzz/target.h"
#include "unit/checkpoint/fixture.h"

namespace trainctl::fuzz {
namespace {

void check_laws(const Manifest& m) {
  for (const FileRecord& f : m.files) {
    law(is_safe_relative_path(f.path), "a file's path stays in the folder");
    law(f.header_bytes >= 8 && f.header_bytes <= f.bytes, "a header fits into its file");
  }
  for (const TensorRecord& t : m.tensors) {
    int64_t elements = 0;
    for (const ChunkRecord& c : t.chunks) {
      elements += c.box.extent.numel();
      law(c.byte_offset >= 8 && c.byte_length >= 0, "a chunk starts behind the length of the header");
      bool listed = false;
      for (const FileRecord& f : m.files)
        listed =
            listed || (f.path == c.file && c.byte_offset >= f.header_bytes && c.byte_length <= f.bytes - c.byte_offset);
      law(listed, "a chunk lies in the data of a file");
      for (int d = 0; d < t.shape.rank(); ++d)
        law(c.box.offset[d] >= 0 && c.box.extent[d] <= t.shape[d] - c.box.offset[d], "a box lies in its tensor");
    }
    if (t.alias_of.empty() && t.derived_from_role.empty())
      law(elements == t.shape.numel(), "chunks have as many elements as their tensor");
  }
}

}  // namespace

bool accepts(std::string_view input) {
  try {
    const Manifest m = manifest_from_text(input, "manifest.json");
    check_laws(m);
    const std::string text = to_text(m);
    law(to_text(manifest_from_text(text, "manifest.json")) == text, "a manifest that was read can be written and read");
    return true;
  } catch (const Error& e) {
    law(e.kind() == ErrorKind::checkpoint, "a manifest is refused as a checkpoint's fault");
    return false;
  }
}

std::vector<std::string> valid_inputs() {
  testing::ScratchFolder folder;
  std::vector<std::string> texts;
  for (const int64_t world : {1, 2}) {
    testing::save_once(folder.path(), world, world, 1);
    texts.push_back(testing::file_bytes(folder.path() / folder_name_of(world) / kManifestName));
  }
  return texts;
}

}  // namespace trainctl::fuzz
