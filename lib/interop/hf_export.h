// lib/interop/hf_export.h -- a checkpoint's weights as a folder that Hugging Face transformers loads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/verify.h"
#include "interop/checkpoint_model.h"
#include "tensor/dtype.h"

namespace trainctl {

struct HfExportOptions {
  DType dtype = DType::f32;  // f32, which loses nothing | bf16 (rounded to nearest even)
  int64_t max_shard_bytes = 5'000'000'000;
  Progress progress;
};

struct HfExportReport {
  std::filesystem::path output, checkpoint;
  std::string family, manifest_sha256;
  int64_t step = 0, tensors = 0, parameters = 0, bytes = 0;  // bytes of tensor data
  WeightSource source;
  std::vector<std::string> files;  // every file of the folder
  std::vector<std::string> notes;
};

// Writes config.json, generation_config.json, tokenizer files (those that were imported with the weights; of a run
// those of the byte tokenizer, as byte-level BPE without merges), model.safetensors (or
// model-0000k-of-0000n.safetensors and their index when one file would hold more than max_shard_bytes), README.md and
// trainctl_export.json into `output`, which appears whole or not at all (interop/publish.h). Each weight is
// its f32 master where the checkpoint has one, else the stored weight (best_weight). Each block is verified before it
// is used. Memory: about the largest tensor. Throws Error{checkpoint}: the checkpoint is not usable, its kind is
// neither training nor portable, it holds no recipe, or its weights are not those of the recipe's model (missing,
// unexpected and mis-shaped ones are listed, all of them). Throws Error{usage} for an output that must not be replaced.
HfExportReport export_hf(const std::filesystem::path& checkpoint, const std::filesystem::path& output,
                         const HfExportOptions& options = {});

}  // namespace trainctl
