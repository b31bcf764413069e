// lib/trainer/checkpoint_identity.cpp -- a run in its own words.
#include "trainer/checkpoint_identity.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/build_info.h"
#include "base/config_io.h"
#include "data/tokenizer.h"
#include "kernels/table.h"

namespace trainctl {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

json topology_of(const Job& job) {
  const ParallelismConfig& p = job.recipe.parallelism;
  return {{"world_size", job.world_size},
          {"tensor_parallel", p.tensor_parallel},
          {"sequence_parallel", p.sequence_parallel},
          {"pipeline_parallel", p.pipeline_parallel},
          {"context_parallel", p.context_parallel},
          {"expert_parallel", p.expert_parallel},
          {"data_parallel", p.data_parallel.value.value()},
          {"zero_stage", p.zero_stage},
          {"pipeline_layers", p.pipeline_layers},
          {"order", p.order},
          {"device", job.recipe.runtime.device},
          {"precision", job.recipe.runtime.precision}};
}

ordered_json tokenizer_of(const DataConfig& data) {
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(data.tokenizer);
  return {
      {"kind", tokenizer->kind()}, {"vocab", tokenizer->vocab()}, {"end_of_document", tokenizer->end_of_document()}};
}

ordered_json features_of(const Job& job) {
  const Recipe& r = job.recipe;
  return {{"device", r.runtime.device},
          {"precision", r.runtime.precision},
          {"recompute", r.runtime.recompute},
          {"kernels", kernels::cpu_vector_level()},
          {"launcher", job.launcher},
          {"threads_per_rank", job.threads_per_rank},
          {"sequence_parallel", r.parallelism.sequence_parallel},
          {"pipeline_schedule", r.parallelism.pipeline_schedule},
          {"document_mask", r.data.document_mask},
          {"reset_positions", r.data.reset_positions},
          {"overrides", job.overrides}};
}

ordered_json data_version_of(const Sampler& sampler) {
  ordered_json sources = ordered_json::array();
  for (const OrderSource& source : sampler.order().sources)
    sources.push_back({{"path", source.path},
                       {"weight", source.weight},
                       {"documents", source.documents},
                       {"tokens", source.tokens},
                       {"digest", source.digest}});
  return {{"definition", definition_of(sampler.order())}, {"sources", sources}};
}

ordered_json code_version_of() {
  return {{"program", "trainctl"},
          {"version", version()},
          {"build", build_id()},
          {"compiler", __VERSION__},
          {"checkpoint_schema", fmt::format("{}.{}", kSchemaMajor, kSchemaMinor)}};
}

// Rank 0's words go into every manifest; a path may hold any byte, JSON may not.
std::string text(const ordered_json& value) {
  return value.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::vector<StateClass> derived_of(const Recipe& recipe) {
  std::vector<StateClass> derived;
  const auto declare = [&derived](const char* name, std::string where) {
    derived.push_back({name, "derived", std::move(where)});
  };
  declare("scheduler", "a function of scalars.step and the optimizer section of meta/config.json");
  declare("rng", "counter based: rng.seed, scalars.step, global token position");
  declare("sampler", "a function of data.consumed_samples, data.state and meta/data-version.json");
  declare("packing", "a function of data.consumed_samples, data.state and meta/data-version.json");
  const std::string& precision = recipe.runtime.precision;
  if (precision == "f32" || precision == "bf16") {
    declare("loss_scaler", fmt::format("precision {} does not use one", precision));
    declare("low_precision_scaling", fmt::format("precision {} does not use any", precision));
  }
  if (recipe.optimizer.kind == "sgd" && recipe.optimizer.momentum == 0)
    declare("optimizer", "scalars.step; sgd without momentum keeps no tensors");
  return derived;
}

}  // namespace

void describe_run(const Job& job, const Sampler& sampler, CheckpointerOptions& options) {
  options.topology = topology_of(job).dump();
  json provenance = {{"build", build_id()}, {"overrides", job.overrides}, {"recipe", recipe_to_json(job.recipe)}};
  if (!job.init_from.folder.empty()) provenance["init_from"] = write_config(job.init_from);
  options.provenance = provenance.dump();
  options.meta = {{"meta/config.json", text(recipe_to_json(job.recipe))},
                  {"meta/tokenizer/tokenizer.json", text(tokenizer_of(job.recipe.data))},
                  {"meta/features.json", text(features_of(job))},
                  {"meta/data-version.json", text(data_version_of(sampler))},
                  {"meta/code-version.json", text(code_version_of())}};
  options.derived = derived_of(job.recipe);
}

}  // namespace trainctl
