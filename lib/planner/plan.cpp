// lib/planner/plan.cpp -- resolve, place, run shape-only, judge.
#include "planner/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/units.h"
#include "planner/text_table.h"
#include "schedule/simulate.h"
#include "topology/rank_map.h"
#include "trainer/engine.h"
#include "trainer/shape_run.h"

namespace trainctl {
namespace {

void list_ranks(Plan& plan, const Mesh& mesh) {
  for (int r = 0; r < mesh.world_size(); ++r) plan.ranks.push_back({.rank = r, .coordinates = mesh.coordinates(r)});
}

void list_groups(Plan& plan, const Mesh& mesh) {
  if (mesh.world_size() == 1) return;
  PlanGroup world{.axis = "world"};
  for (int r = 0; r < mesh.world_size(); ++r) world.ranks.push_back(r);
  plan.groups.push_back(std::move(world));
  for (const Axis axis : kAxes)
    if (mesh.size(axis) > 1)
      for (std::vector<int>& ranks : mesh.groups(axis))
        plan.groups.push_back({std::string(name(axis)), std::move(ranks)});
  if (plan.recipe.model.tie_embeddings && mesh.size(Axis::pipeline) > 1)
    for (const std::vector<int>& stages : mesh.groups(Axis::pipeline))
      plan.groups.push_back({"embedding", {stages.front(), stages.back()}});
}

// Returns the memory limit per rank, 0 when not known. What is refused goes to the verdict.
int64_t place(Plan& plan, const Mesh& mesh, const PlanRequest& request) {
  if (request.topology == nullptr) return 0;
  plan.topology = request.topology->name;
  RankMap map;
  try {
    map = plan_ranks(*request.topology, mesh, {.oversubscribe = request.oversubscribe});
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::plan) throw;
    plan.verdict = {.fits = false, .reasons = {error.what()}};
    return 0;
  }
  for (size_t r = 0; r < map.ranks.size(); ++r) {
    plan.ranks[r].host = map.host_name(static_cast<int>(r));
    plan.ranks[r].device = map.ranks[r].device;
  }
  plan.warnings.insert(plan.warnings.end(), map.warnings.begin(), map.warnings.end());
  if (plan.recipe.runtime.device != map.device_kind)
    plan.verdict = {.fits = false,
                    .reasons = {fmt::format("runtime.device is \"{}\", but the topology's nodes have {} devices; use "
                                            "--set runtime.device={} or another --topology",
                                            plan.recipe.runtime.device, map.device_kind, map.device_kind)}};
  return memory_limit_bytes_per_rank(*request.topology, map);
}

void describe_pipeline(Plan& plan, const std::vector<int64_t>& stage_parameters) {
  const RuntimeConfig& runtime = plan.recipe.runtime;
  const ParallelismConfig& p = plan.recipe.parallelism;
  plan.backward_cost = runtime.recompute == "full" ? 3 : 2;
  const Simulation simulation = simulate(make_schedule(p.pipeline_schedule, static_cast<int>(p.pipeline_parallel),
                                                       static_cast<int>(runtime.micro_batches.value())),
                                         {.forward = 1, .backward = plan.backward_cost});
  plan.bubble_fraction = simulation.bubble_fraction;
  int64_t first = 0;
  for (size_t s = 0; s < p.pipeline_layers.size(); ++s) {
    plan.stages.push_back({.stage = static_cast<int64_t>(s),
                           .first_layer = first,
                           .layers = p.pipeline_layers[s],
                           .parameters = stage_parameters.at(s),
                           .in_flight = simulation.peak_in_flight.at(s)});
    first += p.pipeline_layers[s];
  }
}

// What could be given up, in the order of its cost; only what this build has.
std::string memory_advice(const Plan& plan) {
  std::string advice;
  const auto add = [&](bool applies, const char* what) {
    if (applies) advice += (advice.empty() ? "try " : ", ") + std::string(what);
  };
  const Recipe& r = plan.recipe;
  add(r.runtime.recompute == "none", "runtime.recompute=full");
  add(*r.runtime.micro_batch_size > 1, "a smaller runtime.micro_batch_size");
  add(r.parallelism.tensor_parallel > 1 && !r.parallelism.sequence_parallel, "parallelism.sequence_parallel=true");
  add(r.parallelism.pipeline_schedule == "gpipe", "parallelism.pipeline_schedule=1f1b");
  add(r.parallelism.tensor_parallel < r.model.heads, "a larger parallelism.tensor_parallel");
  add(r.parallelism.pipeline_parallel < r.model.layers, "a larger parallelism.pipeline_parallel");
  return advice;
}

void judge(Plan& plan, int64_t limit) {
  const auto worst =
      std::max_element(plan.counters.memory.begin(), plan.counters.memory.end(),
                       [](const MemoryClass& a, const MemoryClass& b) { return a.peak_bytes < b.peak_bytes; });
  const bool one = worst->ranks.size() == 1;
  const char* whose = one ? "its" : "their";
  const std::string peak =
      fmt::format("the fullest {} ({}) {} {} at {} peak", one ? "rank" : "ranks", ranges_text(worst->ranks, 40),
                  one ? "holds" : "hold", human_bytes(worst->peak_bytes), whose);
  if (limit == 0) {
    plan.verdict.reasons.push_back(
        fmt::format("{}; {}{} limit is not known", peak, plan.topology.empty() ? "without --topology " : "", whose));
    return;
  }
  if (worst->fits()) {
    if (!plan.verdict.fits) plan.verdict.fits = true;
    plan.verdict.reasons.push_back(fmt::format(
        "{}, {:.1f} % of {} {}", peak, 100.0 * static_cast<double>(worst->peak_bytes) / static_cast<double>(limit),
        whose, human_bytes(limit)));
    return;
  }
  plan.verdict.fits = false;
  plan.verdict.reasons.push_back(fmt::format("{}, {} more than {} {}; {}", peak, human_bytes(worst->peak_bytes - limit),
                                             whose, human_bytes(limit), memory_advice(plan)));
}

}  // namespace

Plan make_plan(const LoadedRecipe& loaded, const PlanRequest& request) {
  Plan plan;
  plan.world_size = request.ranks.value_or(smallest_world(loaded.recipe));
  const ResolveResult resolved = resolve(loaded, plan.world_size);
  refuse_faults(loaded.source.source, resolved.faults);
  plan.recipe = resolved.recipe;
  plan.warnings = resolved.warnings;
  for (KeyOrigin& key : key_origins(loaded, plan.recipe))
    if (key.origin.starts_with("--set")) plan.overrides.push_back(std::move(key));

  const Mesh mesh = mesh_of(plan.recipe.parallelism);
  list_ranks(plan, mesh);
  list_groups(plan, mesh);
  const int64_t limit = place(plan, mesh, request);
  ShapeRunResult run = shape_run(plan.recipe, limit);
  plan.counters = std::move(run.counters);
  plan.parameters = run.parameters;
  plan.engine_runs = run.engine_runs;
  plan.host_staging_bytes = run.host_staging_bytes;
  plan.decay = decay_groups(build_model(plan.recipe.model), plan.recipe.optimizer);
  describe_pipeline(plan, run.stage_parameters);
  judge(plan, limit);
  return plan;
}

std::string batch_equation(const Recipe& r) {
  return fmt::format("global_batch_size {} = micro_batch_size {} x micro_batches {} x data_parallel {}",
                     *r.runtime.global_batch_size, *r.runtime.micro_batch_size, *r.runtime.micro_batches,
                     *r.parallelism.data_parallel.value);
}

}  // namespace trainctl
