// lib/interop/hf_import.h -- a Hugging Face folder's weights as a portable checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/verify.h"

namespace trainctl {

struct HfImportOptions {
  std::string build;                  // of this program, for the provenance
  std::vector<std::string> harmless;  // fields of config.json that are not known and may be passed over
  Progress progress;                  // over the bytes compared, if any, written, and read back
};

struct HfImportReport {
  std::filesystem::path output, source;
  std::string family, manifest_sha256;
  std::string recipe_model;  // JSON {"model": {...}}: the section of a recipe that trains these weights
  std::string tokenizer;     // "bytes": its tokenizer.json is the one that an export of the byte tokenizer writes
  int64_t tensors = 0, parameters = 0, bytes = 0;
  int64_t compared = 0;  // files that were compared with the digests of trainctl_export.json
  std::vector<std::string> notes;
};

// Writes `output`, a checkpoint folder of kind portable: every parameter under its name in the state catalog, in f32
// (from F32, and from F16, whose every value is an f32) or in bf16 (from BF16). Its meta/ holds recipe-model.json, the
// folder's config.json, and its generation configuration and tokenizer files where it has them. The folder appears by
// renaming and is committed last (interop/portable_writer.h), then every byte is read back.
// A tied head that the folder stores must have the embedding's bits. The causal masks and rotary tables that old files
// hold are no parameters and are passed over, with a note.
// Memory: the largest tensor of GPT-2 (its matrices are transposed); for the others a few MiB.
// A folder with the record of an export of ours is first compared with its digests (interop/export_record.h). The byte
// tokenizer that such an export wrote is recognised by its content and recorded: later exports have it too.
// Throws Error{input} before anything is written: what check_export_record, hf_model and HfSource refuse; missing,
// unexpected, mis-shaped tensors and those of other dtypes, all of them by name. Throws it afterwards, leaving nothing,
// for infinities and NaNs. Throws Error{usage} for an output that must not be replaced.
HfImportReport import_hf(const std::filesystem::path& source, const std::filesystem::path& output,
                         const HfImportOptions& options = {});

}  // namespace trainctl
