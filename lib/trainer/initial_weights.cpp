// lib/trainer/initial_weights.cpp -- judging the source against the model, and reading it.
#include "trainer/initial_weights.h"

#include <fmt/format.h>

#include <set>
#include <vector>

#include "base/error.h"
#include "checkpoint/restore_weights.h"
#include "checkpoint/verify.h"
#include "model/model.h"
#include "parallel/apply_parallelism.h"
#include "trainer/recorded_recipe.h"

namespace trainctl {
namespace fs = std::filesystem;
namespace {

bool holds_weights(const std::string& kind) { return kind == "training" || kind == "portable" || kind == "inference"; }

std::string why_not(const CheckpointInfo& info) {
  return info.reason.empty() ? "its kind is " + info.kind : info.reason;
}

fs::path choose_folder(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored))
    fail(ErrorKind::checkpoint, fmt::format("--init-from {}: there is nothing; give a checkpoint, a run directory, or "
                                            "what `trainctl checkpoint import` made",
                                            path.string()));
  if (is_checkpoint_folder(path)) return path;
  if (fs::exists(path / "config.json", ignored))
    fail(ErrorKind::checkpoint, fmt::format("--init-from {} is a Hugging Face folder; make a checkpoint of it first: "
                                            "trainctl checkpoint import --from hf {}",
                                            path.string(), path.string()));
  std::string rejected;
  for (const CheckpointInfo& info : scan_checkpoints(checkpoint_root_of(path))) {
    if (info.state == CheckpointState::usable && holds_weights(info.kind)) return info.folder;
    rejected += fmt::format("\n  {}: {}", info.folder.string(), why_not(info));
  }
  fail(ErrorKind::checkpoint, fmt::format("--init-from {} has no usable checkpoint{}", path.string(), rejected));
}

std::vector<WeightShape> weights_of(const ModelConfig& config) {
  std::vector<WeightShape> weights;
  std::set<std::string> names;
  for (const auto& module : build_model(config).modules)
    for (const ParameterPtr* parameter : module->parameters())
      if (names.insert((*parameter)->spec.name).second)
        weights.push_back({(*parameter)->spec.name, (*parameter)->spec.shape});
  return weights;
}

}  // namespace

InitFrom choose_initial_weights(const fs::path& path, bool allow_intermediate, const ModelConfig& model) {
  const fs::path folder = fs::absolute(choose_folder(path)).lexically_normal();
  const CheckpointReader reader(folder);
  const std::string& kind = reader.manifest().kind;
  if (kind == "intermediate" && !allow_intermediate)
    fail(ErrorKind::checkpoint, fmt::format("--init-from {}: its kind is intermediate (the state holds infinities or "
                                            "NaNs, or its loss was none); add --allow-intermediate to start from it",
                                            folder.string()));
  const RecordedRecipe recorded = compare_recorded_model(reader.manifest(), model);
  const std::string faults = weight_faults(reader, weights_of(model));
  if (!faults.empty() || !recorded.misfit.empty())
    fail(ErrorKind::checkpoint,
         fmt::format("--init-from {}: its weights are not those of this recipe's model{}{}{}{}", folder.string(),
                     recorded.misfit.empty() ? ":" : ": ", recorded.misfit, faults,
                     recorded.remedy.empty() ? "" : "\nwhat to do: set " + recorded.remedy));
  return {fs::absolute(path).lexically_normal().string(), folder.string(), reader.info().manifest_sha256, kind,
          reader.manifest().step};
}

std::vector<std::string> initial_weight_remarks(const InitFrom& from, const ModelConfig& model) {
  std::vector<std::string> remarks;
  if (!is_checkpoint_folder(from.asked))
    for (const CheckpointInfo& info : scan_checkpoints(checkpoint_root_of(from.asked))) {
      const fs::path folder = fs::absolute(info.folder).lexically_normal();
      if (folder == from.folder) break;
      remarks.push_back(fmt::format("passed over {} ({}): {}", folder.string(), name(info.state), why_not(info)));
    }
  for (const std::string& difference : compare_recorded_model(CheckpointReader(from.folder).manifest(), model).told)
    remarks.push_back(difference + ": the weights now compute another function");
  return remarks;
}

LoadCost load_initial_weights(const InitFrom& from, ShardedModel& model, Device& device, const Agreement& ranks) {
  CheckpointReader reader(from.folder);
  if (reader.info().manifest_sha256 != from.manifest_sha256)
    fail(ErrorKind::checkpoint,
         fmt::format("{} is not the checkpoint that this run was to start from: its manifest has "
                     "the SHA-256 {}, not {}",
                     from.folder, reader.info().manifest_sha256, from.manifest_sha256));
  restore_weights(reader, weight_catalog(model), device, ranks);
  refresh_compute_weights(model);
  return reader.cost(ranks);
}

}  // namespace trainctl
