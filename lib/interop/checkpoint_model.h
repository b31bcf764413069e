// lib/interop/checkpoint_model.h -- the architecture that a checkpoint's manifest records, and its weights proven to
// be those of that architecture.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/meta_files.h"
#include "interop/hf_tensors.h"
#include "model/model_config.h"

namespace trainctl {

// An export should be light on a login node: half the memory of a restore's reads.
IoOptions light_reads();

// Weights by the role that they are taken from (best_weight): "master", "weight".
using WeightSource = std::map<std::string, int64_t>;
std::string source_text(const WeightSource& source);  // "from the f32 masters"

struct CheckpointModel {
  std::string name;         // of the run, or of the folder that was imported
  ModelConfig config;       // resolved
  std::string tokenizer;    // "bytes" of a run with it, or of an import of its export; or "": another one, or none
  std::string special_ids;  // JSON {"bos_token_id", "eos_token_id", "pad_token_id"}, each null, an id or ids
  std::vector<HfTensor> tensors;
  std::vector<MetaRecord> meta;
  WeightSource source;

  const MetaRecord* find_meta(std::string_view name) const;  // "tokenizer.json"; null when there is none
};

// Of a checkpoint of kind training (provenance.recipe) or portable (that, or provenance.model). Throws
// Error{checkpoint}: another kind, no architecture in the manifest, or weights that are not those of the model:
// missing, unexpected and mis-shaped ones are listed, all of them.
CheckpointModel checkpoint_model(const CheckpointReader& reader);

// An output (absolute) must not lie in a checkpoint, nor where a run's saves put things aside. Throws Error{usage}.
void check_output_place(const std::filesystem::path& output);

// An output must not lie in the checkpoint, nor have a name that is taken for one. Throws Error{usage}.
void check_export_output(const std::filesystem::path& checkpoint, const std::filesystem::path& output);

// "" for a usable checkpoint of kind training or portable, else why it cannot be exported: for choose_checkpoint.
std::string unless_exportable(const CheckpointInfo& info);

}  // namespace trainctl
