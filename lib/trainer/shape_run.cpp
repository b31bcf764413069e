// lib/trainer/shape_run.cpp -- classes of ranks, one engine per class, and the cost of every rank.
#include "trainer/shape_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "comm/counting.h"
#include "parallel/sharding.h"
#include "trainer/engine.h"

namespace trainctl {
namespace {

constexpr int kSmallWorld = 64;

struct ClassRun {
  int64_t host_staging_bytes = 0;           // at most; 0 where staging is in `counters`
  RankCounters counters;                    // of the representative
  CountingCollectives::Histogram requests;  // of one step
};

CountingCollectives::Histogram difference(const CountingCollectives::Histogram& later,
                                          const CountingCollectives::Histogram& earlier) {
  CountingCollectives::Histogram d;
  for (const auto& [shape, count] : later) {
    const auto before = earlier.find(shape);
    const int64_t n = count - (before == earlier.end() ? 0 : before->second);
    if (n > 0) d[shape] = n;
  }
  return d;
}

// Runs what a worker runs: set-up, staging memory, steps, an evaluation. Step 2 is counted: step 1 may hold one-off
// work.
ClassRun run_class(const Recipe& recipe, const Mesh& mesh, int rank) {
  auto counting =
      std::make_unique<CountingCollectives>(rank, mesh.world_size(), recipe.parallelism.message_chunk_bytes);
  const CountingCollectives& requests = *counting;
  auto engine = assemble(
      recipe, {.device = make_shape_only_device(), .kernels = {}, .collectives = std::move(counting), .on_place = {}});
  // Checkpoints are staged in host memory; a cpu rank computes in the same memory, a device in its own.
  const std::unique_ptr<Device> host = make_shape_only_device();
  Arena host_arena(*host);
  Arena& staging = recipe.runtime.device == "cpu" ? *engine->arena : host_arena;
  const Checkpointer checkpointer = build_checkpointer(recipe.checkpoint,
                                                       {.folder = {},
                                                        .run_id = {},
                                                        .topology = "{}",
                                                        .provenance = "{}",
                                                        .agreement = {.rank = rank, .world = mesh.world_size()},
                                                        .on_point = {}},
                                                       staging, engine->catalog());
  const auto step = [&](int64_t number) {
    engine->runtime->step(number);
    engine->any_rank_asks(false);
  };
  step(1);
  const auto before = requests.requests();
  const int64_t flops_before = engine->context->flops();
  step(2);
  ClassRun run;
  run.requests = difference(requests.requests(), before);
  run.counters.hardware_flops = engine->context->flops() - flops_before;
  if (recipe.runtime.eval_every_steps > 0) engine->runtime->evaluate();
  run.counters.at_peak = engine->arena->counters().at_peak;
  run.counters.peak_bytes = engine->arena->counters().peak_total;
  run.host_staging_bytes = host_arena.counters().peak_total;
  return run;
}

// Per tensor rank: what decides the shapes it holds and the part of the state it owns.
std::vector<std::string> tensor_signatures(const Model& model, int64_t tensor_parallel) {
  std::vector<std::string> signatures;
  for (int64_t t = 0; t < tensor_parallel; ++t) {
    std::string s;
    for (const auto& module : model.modules) {
      if (module->layer() > 0) continue;  // layers are alike
      for (const ParameterPtr* p : module->parameters()) {
        const Box box = shard_box((*p)->spec, tensor_parallel, t);
        const Span64 owned = owned_rows((*p)->spec, tensor_parallel, t);
        s += fmt::format("{}/{};", to_string(box.extent), owned.size());
      }
    }
    signatures.push_back(std::move(s));
  }
  return signatures;
}

std::vector<TrafficRow> cost_for(const Mesh& mesh, int rank, const CountingCollectives::Histogram& requests,
                                 int64_t chunk) {
  std::map<std::pair<int, Operation>, Cost> costs;
  const std::vector<GroupInfo> groups = mesh_groups(mesh, rank);
  std::map<int, const GroupInfo*> by_id;
  for (const GroupInfo& g : groups) by_id[g.id] = &g;
  for (const auto& [shape, count] : requests) {
    const Cost one = predicted_cost(*by_id.at(shape.group_id), shape.request(), chunk);
    costs[{shape.group_id, shape.operation}] += {one.messages * count, one.bytes * count};
  }
  std::vector<TrafficRow> rows;
  for (const auto& [key, cost] : costs)
    if (cost.messages > 0)
      rows.push_back({by_id.at(key.first)->axis, std::string(name(key.second)), cost.messages, cost.bytes});
  return rows;
}

}  // namespace

ShapeRunResult shape_run(const Recipe& recipe, int64_t memory_limit_bytes_per_rank) {
  const Mesh mesh = mesh_of(recipe.parallelism);
  const Model model = build_model(recipe.model);
  const std::vector<std::string> signatures = tensor_signatures(model, recipe.parallelism.tensor_parallel);

  std::map<std::string, ClassRun> classes;
  std::vector<RankCounters> ranks;
  ranks.reserve(static_cast<size_t>(mesh.world_size()));
  for (int r = 0; r < mesh.world_size(); ++r) {
    const Coordinates c = mesh.coordinates(r);
    std::string key;
    if (mesh.world_size() <= kSmallWorld) {
      key = std::to_string(r);
    } else {
      // Rows of a sequence-parallel run may be uneven too: then every tensor rank is a class.
      const int64_t rows = recipe.runtime.micro_batch_size.value() * recipe.data.sequence_tokens;
      const bool uneven_rows = recipe.parallelism.sequence_parallel && rows % recipe.parallelism.tensor_parallel != 0;
      key = fmt::format("{}|{}|{}|{}", c.pipeline, signatures[static_cast<size_t>(c.tensor)], c.data == 0,
                        uneven_rows ? c.tensor : -1);
    }
    auto found = classes.find(key);
    if (found == classes.end()) found = classes.emplace(key, run_class(recipe, mesh, r)).first;
    RankCounters counters = found->second.counters;
    counters.rank = r;
    counters.traffic = cost_for(mesh, r, found->second.requests, recipe.parallelism.message_chunk_bytes);
    ranks.push_back(std::move(counters));
  }

  ShapeRunResult result;
  for (const auto& [key, run] : classes)
    result.host_staging_bytes = std::max(result.host_staging_bytes, run.host_staging_bytes);
  result.engine_runs = static_cast<int64_t>(classes.size());
  result.parameters = parameter_count(model);
  result.counters =
      combine(ranks, model_flops(recipe.model, recipe.runtime.global_batch_size.value(), recipe.data.sequence_tokens),
              memory_limit_bytes_per_rank);
  std::vector<int64_t> split = recipe.parallelism.pipeline_layers;
  if (split.empty()) split = {recipe.model.layers};
  size_t module = 0;
  for (size_t stage = 0; stage < split.size(); ++stage) {
    int64_t modules = split[stage] + (stage == 0 ? 1 : 0) + (stage + 1 == split.size() ? 1 : 0), elements = 0;
    std::map<std::string, int64_t> distinct;
    for (; modules > 0; --modules, ++module)
      for (const ParameterPtr* p : model.modules[module]->parameters())
        distinct[(*p)->spec.name] = (*p)->spec.shape.numel();
    for (const auto& [parameter, n] : distinct) elements += n;
    result.stage_parameters.push_back(elements);
  }
  return result;
}

}  // namespace trainctl
