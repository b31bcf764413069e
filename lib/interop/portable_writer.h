// lib/interop/portable_writer.h -- a checkpoint of kind portable: whole weights of no run, written tensor by tensor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/format.h"
#include "checkpoint/posix_io.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/verify.h"
#include "interop/sibling_folder.h"

namespace trainctl {

struct PortableTensor {
  std::string name;  // as in the state catalog; the role is "weight"
  DType dtype = DType::f32;
  Shape shape;
};

struct PortableOptions {
  std::string run_id, reason;
  std::string provenance;  // a JSON object
};

// The folder is prepared under a hidden name beside the output: data and receipt, manifest; then it is renamed to the
// output, never over something, and COMMITTED is written last: until then readers take it for an interrupted save. An
// interrupted portable checkpoint at the output is removed first; an empty folder is replaced.
class PortableWriter {
 public:
  // Throws Error{usage} when the output is anything else, or lies in a checkpoint; Error{environment} when it cannot be
  // made. `tensors` must be in the order in which they will be given, wide elements first.
  PortableWriter(const std::filesystem::path& output, const std::vector<PortableTensor>& tensors,
                 PortableOptions options);

  // A small file to lie in meta/; recorded in the manifest with its digest.
  void meta(const std::string& name, std::string_view content);
  void append(const void* data, int64_t bytes);  // the tensors' bytes, in order, in pieces of any size
  // All bytes must have been given. Reads every byte back and compares it with its digest; what does not agree is
  // marked unusable, and Error{environment} says so. `progress` follows the reading.
  CheckpointInfo commit(const Progress& progress = {});

 private:
  void flush_block();
  std::string manifest_text() const;

  std::filesystem::path output_;
  PortableOptions options_;
  SiblingFolder folder_;
  std::string attempt_;
  Receipt receipt_;
  std::vector<MetaRecord> meta_;
  std::vector<char> block_;  // of the file, not yet written
  int64_t at_ = 0;           // where block_ begins
  FileHandle file_;
};

}  // namespace trainctl
