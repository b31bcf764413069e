// lib/trainer/initial_weights.h -- weights to start from, out of another checkpoint: chosen by the launcher, loaded by
// every rank.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/agreement.h"
#include "checkpoint/load_cost.h"
#include "device/device.h"
#include "model/model_config.h"
#include "parallel/sharded_model.h"
#include "recipe/job.h"

namespace trainctl {

// The checkpoint that `path` stands for: itself, or of a run directory or a folder of checkpoints the newest usable one
// of kind training, portable or inference. `model` is resolved. Throws Error{checkpoint}: there is none; it is
// unusable; its kind is intermediate and `allow_intermediate` is false; its weights are not exactly those of the model
// (missing, unexpected and mis-shaped ones are listed, all of them), or the recipe that it records is of another model.
InitFrom choose_initial_weights(const std::filesystem::path& path, bool allow_intermediate, const ModelConfig& model);

// What a person should know of the choice: newer checkpoints of the run that were passed over, and why; what the recipe
// recorded there says otherwise about the function the weights compute, and may be meant (rope, norm_eps). Throws as
// choose_initial_weights.
std::vector<std::string> initial_weight_remarks(const InitFrom& from, const ModelConfig& model);

// Fills this rank's master weights with its boxes of the stored ones, whatever layout wrote them, and the compute
// weights from them: from the f32 master where one is stored, else from the weights. Every block is verified.
// Collective in a world of several ranks, where blocks that ranks of one node share are read once. Throws
// Error{checkpoint} when it cannot be used, or is not the one that was chosen (another manifest).
LoadCost load_initial_weights(const InitFrom& from, ShardedModel& model, Device& device, const Agreement& ranks = {});

}  // namespace trainctl
