// lib/interop/gguf_export.h -- a checkpoint's weights as one file that llama.cpp loads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/verify.h"
#include "interop/checkpoint_model.h"
#include "interop/gguf_writer.h"

namespace trainctl {

struct GgufExportOptions {
  // Of the matrices; vectors and GPT-2's positions stay f32. F16 and BF16 are rounded to nearest even. Q8_0: per run of
  // 32 elements of a row d = max |x| / 127 (then rounded to f16) and round(x / d), halves away from zero; a matrix
  // whose rows are not whole runs is written in F16 and noted.
  GgufType type = GgufType::f32;
  Progress progress;
};

struct GgufExportReport {
  std::filesystem::path output, checkpoint;
  std::string family, manifest_sha256;
  int64_t step = 0, tensors = 0, parameters = 0, bytes = 0;  // bytes of the file
  WeightSource source;
  std::vector<std::string> notes;
};

// The file appears whole or not at all, and replaces only an earlier export of ours (one with the key
// trainctl.manifest_sha256). Each weight is its f32 master where the checkpoint has one, else the stored weight
// (best_weight), converted from there once. Memory: about the largest tensor.
// The byte tokenizer becomes byte-level BPE without merges (interop/byte_tokenizer.h). Other tokenizers are not
// converted: the file then says that it has none, and llama.cpp takes and gives ids.
// Throws Error{checkpoint}: what checkpoint_model refuses, what llama.cpp does not compute (interop/gguf_model.h), and
// values that f16 cannot hold, by tensor. Throws Error{usage} for an output that must not be replaced.
GgufExportReport export_gguf(const std::filesystem::path& checkpoint, const std::filesystem::path& output,
                             const GgufExportOptions& options = {});

}  // namespace trainctl
