// lib/accept/drill_recipe.cpp -- see the header.
#include "accept/drill_recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/error.h"
#include "base/units.h"

namespace trainctl {
namespace {

constexpr int64_t kScaledHeadDim = 16, kScaledTokens = 64, kScaledLayersPerStage = 2;

std::vector<std::string> joined(std::vector<std::string> first, const std::vector<std::string>& more) {
  first.insert(first.end(), more.begin(), more.end());
  return first;
}

std::vector<std::string> schedule_overrides(const Recipe& r, int64_t steps) {
  const ScheduleConfig& s = r.optimizer.schedule;
  std::vector<std::string> sets = {fmt::format("runtime.steps={}", steps), "runtime.eval_every_steps=0"};
  if (s.warmup_steps >= steps) sets.push_back(fmt::format("optimizer.schedule.warmup_steps={}", steps / 4));
  if (s.decay_steps > steps) sets.push_back(fmt::format("optimizer.schedule.decay_steps={}", steps));
  return sets;
}

std::vector<std::string> scale_overrides(const Recipe& r) {
  const ModelConfig& m = r.model;
  const int64_t head_dim = std::min(m.head_dim.value_or(m.d_model / m.heads), kScaledHeadDim);
  const int64_t d_model = m.heads * head_dim, tokens = std::min(r.data.sequence_tokens, kScaledTokens);
  std::vector<std::string> sets = {
      fmt::format("model.layers={}", std::min(m.layers, kScaledLayersPerStage * r.parallelism.pipeline_parallel)),
      fmt::format("model.d_model={}", d_model), fmt::format("model.d_ff={}", 4 * d_model),
      fmt::format("data.sequence_tokens={}", tokens)};
  if (m.head_dim) sets.push_back(fmt::format("model.head_dim={}", head_dim));
  if (m.max_positions != 0) sets.push_back(fmt::format("model.max_positions={}", tokens));
  if (!r.parallelism.pipeline_layers.empty()) sets.emplace_back("parallelism.pipeline_layers=[]");
  return sets;
}

std::string text_of(const ParallelismConfig& p) {
  return fmt::format("tensor_parallel {}{} x pipeline_parallel {} x data_parallel {}", p.tensor_parallel,
                     p.sequence_parallel ? " (sequence)" : "", p.pipeline_parallel, p.data_parallel.value.value_or(1));
}

std::array<int64_t, 3> degrees_of(const ParallelismConfig& p) {
  return {p.tensor_parallel, p.pipeline_parallel, p.data_parallel.value.value_or(1)};
}

// The recipe in that layout; nullopt when it is not legal.
std::optional<Recipe> resolved(const std::filesystem::path& recipe, const std::vector<std::string>& overrides,
                               int64_t ranks) {
  try {
    ResolveResult r = resolve(load_recipe(recipe, overrides), ranks);
    if (r.faults.empty()) return std::move(r.recipe);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::config && e.kind() != ErrorKind::usage) throw;
  }
  return std::nullopt;
}

DrillLayout other_layout(const std::filesystem::path& recipe, const std::vector<std::string>& overrides,
                         const ParallelismConfig& first, int64_t ranks) {
  const std::array<int64_t, 3> now = degrees_of(first);
  for (const int64_t world : {ranks, ranks / 2, 2 * ranks}) {
    DrillLayout best;
    int most = 0;
    for (int64_t tensor = 1; tensor <= world; ++tensor)
      for (int64_t stages = 1; tensor * stages <= world; ++stages) {
        const std::array<int64_t, 3> then = {tensor, stages, world / (tensor * stages)};
        int changed = 0;
        for (size_t i = 0; i < then.size(); ++i) changed += then[i] != now[i];
        if (world % (tensor * stages) != 0 || changed <= most) continue;
        std::vector<std::string> sets = {fmt::format("parallelism.tensor_parallel={}", tensor),
                                         fmt::format("parallelism.sequence_parallel={}", tensor > 1 ? "true" : "false"),
                                         fmt::format("parallelism.pipeline_parallel={}", stages),
                                         fmt::format("parallelism.data_parallel={}", then[2]),
                                         "parallelism.pipeline_layers=[]"};
        if (const std::optional<Recipe> r = resolved(recipe, joined(overrides, sets), world)) {
          most = changed;
          best = {world, std::move(sets), text_of(r->parallelism)};
        }
      }
    if (most > 0) return best;
  }
  fail(ErrorKind::plan,
       fmt::format("no other layout of {} to {} is legal for this recipe, so a continuation in another "
                   "layout cannot be shown; give other --ranks, or a batch that more layouts divide",
                   std::max<int64_t>(ranks / 2, 1), counted(2 * ranks, "rank")));
}

}  // namespace

DrillRecipe drill_recipe(const std::filesystem::path& recipe, const std::vector<std::string>& overrides, int64_t ranks,
                         int64_t steps, bool scaled_down) {
  const LoadedRecipe loaded = load_recipe(recipe, overrides);
  DrillRecipe drill;
  drill.overrides = joined(overrides, schedule_overrides(loaded.recipe, steps));
  if (scaled_down) drill.overrides = joined(drill.overrides, scale_overrides(loaded.recipe));
  drill.layout.ranks = ranks > 0 ? ranks : smallest_world(loaded.recipe);
  if (scaled_down) {
    const ResolveResult full = resolve(loaded, drill.layout.ranks);
    refuse_faults(loaded.source.source, full.faults);
    drill.overrides = joined(
        drill.overrides,
        {"runtime.micro_batch_size=1", "runtime.micro_batches=null",
         fmt::format("runtime.global_batch_size={}", 2 * full.recipe.parallelism.data_parallel.value.value_or(1))});
  }
  const LoadedRecipe cut = load_recipe(recipe, drill.overrides);
  const ResolveResult first = resolve(cut, drill.layout.ranks);
  refuse_faults(cut.source.source, first.faults);
  drill.layout.text = text_of(first.recipe.parallelism);
  drill.f32 = first.recipe.runtime.precision == "f32";
  drill.other = other_layout(recipe, drill.overrides, first.recipe.parallelism, drill.layout.ranks);
  return drill;
}

}  // namespace trainctl
