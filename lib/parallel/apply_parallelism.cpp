// lib/parallel/apply_parallelism.cpp -- the order of the strategies, storage, initial values, and the catalog.
#include "parallel/apply_parallelism.h"

#include <algorithm>

#include "base/philox.h"
#include "parallel/sharding.h"
#include "parallel/strategies/pipeline.h"
#include "parallel/strategies/tensor.h"

namespace trainctl {
namespace {

Tensor shard_view(const Tensor& flat, const Parameter& p) { return flat.flat_slice(p.flat_offset, p.box.extent); }

void initialise(Context& ctx, const Parameter& p, const Tensor& flat, uint64_t seed) {
  const Tensor x = shard_view(flat, p);
  if (x.numel() == 0) return;
  if (p.spec.init != InitKind::normal) {
    ctx.run(kernels::InitConstant{.x = x, .value = p.spec.init == InitKind::ones ? 1.0f : 0.0f});
    return;
  }
  ctx.run(kernels::InitNormal{.x = x,
                              .key = seed,
                              .stream = stream_of(p.spec.name),
                              .std = p.spec.init_std,
                              .row_begin = p.box.offset[0],
                              .col_begin = p.box.offset[1],
                              .global_cols = p.spec.shape[1]});
}

// Flat ranges that this rank alone counts: shards, the first holder of a replica, the first of two tied copies.
std::vector<Span64> counted_ranges(const ShardedModel& m, int64_t tensor_parallel, int64_t tensor_rank,
                                   const ParameterPtr& tied) {
  std::vector<Span64> ranges;
  for (const ParameterPtr& p : m.layout.parameters) {
    if (p == tied && !m.first_stage()) continue;
    const Span64 owned = owned_rows(p->spec, tensor_parallel, tensor_rank);
    const int64_t first = owned.begin - (owned.size() > 0 ? p->box.offset[0] : owned.begin);
    const int64_t row = p->box.extent[0] > 0 ? p->box.extent.numel() / p->box.extent[0] : 0;
    const int64_t rows = p->box.extent[0] < owned.size() ? p->box.extent[0] : owned.size();
    const Span64 range{p->flat_offset + first * row, p->flat_offset + (first + rows) * row};
    if (range.size() == 0) continue;
    if (!ranges.empty() && ranges.back().end == range.begin)
      ranges.back().end = range.end;
    else
      ranges.push_back(range);
  }
  return ranges;
}

}  // namespace

Span64 ShardedModel::rows(int64_t total) const {
  ProcessGroup& tensor = world->group(Axis::tensor);
  return sequence_parallel ? even_split(total, tensor.size(), tensor.rank()) : Span64{0, total};
}

ShardedModel apply_parallelism(Model model, const ParallelismConfig& parallelism, World& world, Context& ctx,
                               const ApplyOptions& options) {
  ProcessGroup& tensor = world.group(Axis::tensor);
  ShardedModel m;
  m.config = model.config;
  m.world = &world;
  m.context = &ctx;
  m.stage = world.coordinates().pipeline;
  m.stages = static_cast<int>(parallelism.pipeline_parallel);
  m.sequence_parallel = parallelism.sequence_parallel && tensor.size() > 1;
  m.compute_dtype = options.compute_dtype;

  std::vector<int64_t> split = parallelism.pipeline_layers;
  if (split.empty()) split = {model.config.layers};
  m.modules = take_stage(std::move(model), split, m.stage);
  for (auto& module : m.modules) {
    for (ParameterPtr* p : module->parameters()) (*p)->box = shard_box((*p)->spec, tensor.size(), tensor.rank());
    apply_tensor_parallelism(*module, tensor, m.sequence_parallel);
  }
  m.layout = lay_out(m.modules);

  const int64_t n = m.layout.elements;
  ctx.place("allocate weights");
  if (m.compute_dtype == DType::f32) {
    m.master = m.weights = ctx.empty({n}, DType::f32, MemoryCategory::weights);
  } else {
    m.weights = ctx.empty({n}, m.compute_dtype, MemoryCategory::weights);
    m.master = ctx.empty({n}, DType::f32, MemoryCategory::optimizer);
  }
  m.grads = ctx.empty({n}, DType::f32, MemoryCategory::gradients);
  ctx.zero(m.master);  // the gaps between shards stay 0
  ctx.zero(m.grads);
  for (const ParameterPtr& p : m.layout.parameters) {
    p->value = shard_view(m.weights, *p);
    p->grad = shard_view(m.grads, *p);
  }
  for (auto& module : m.modules) module->bind(ctx);

  ParameterPtr tied;
  if (m.config.tie_embeddings && m.stages > 1 && (m.first_stage() || m.last_stage()))
    for (const ParameterPtr& p : m.layout.parameters)
      if (p->spec.name == "embedding.weight") tied = p;
  m.replicas = ReplicaSync(m.layout.parameters, world, m.sequence_parallel, tied);
  m.counted = counted_ranges(m, tensor.size(), tensor.rank(), tied);
  m.reducer = std::make_unique<GradientReducer>(ctx, world.group(Axis::data), m.layout, m.grads,
                                                parallelism.bucket_bytes, parallelism.overlap_grad_reduce);
  return m;
}

void initialise_weights(ShardedModel& m, uint64_t seed) {
  m.context->place("initialise weights");
  for (const ParameterPtr& p : m.layout.parameters) initialise(*m.context, *p, m.master, seed);
  refresh_compute_weights(m);
}

void refresh_compute_weights(ShardedModel& m) {
  if (m.compute_dtype != DType::f32) m.context->run(kernels::Cast{.x = m.master, .y = m.weights});
}

StateCatalog flat_catalog(const ShardedModel& m, const Tensor& flat, const std::string& role) {
  StateCatalog catalog;
  ProcessGroup& tensor = m.world->group(Axis::tensor);
  const bool first_replica = m.world->group(Axis::data).rank() == 0;
  for (const ParameterPtr& p : m.layout.parameters) {
    const bool second_copy =
        m.config.tie_embeddings && m.stages > 1 && !m.first_stage() && p->spec.name == "embedding.weight";
    // Rows this rank owns and rows it holds besides are entries of their own: the first are written, all are restored.
    const Span64 held{p->box.offset[0], p->box.offset[0] + p->box.extent[0]};
    Span64 owned = owned_rows(p->spec, tensor.size(), tensor.rank());
    owned = {std::clamp(owned.begin, held.begin, held.end), std::clamp(owned.end, held.begin, held.end)};
    const int64_t row = held.size() > 0 ? p->box.extent.numel() / held.size() : 0;
    for (const auto& [part, owner] : {std::pair{Span64{held.begin, owned.begin}, false}, std::pair{owned, true},
                                      std::pair{Span64{owned.end, held.end}, false}}) {
      if (part.size() == 0 || p->box.extent.numel() == 0) continue;
      StateEntry e;
      e.name = p->spec.name;
      e.role = role;
      e.shape = p->spec.shape;
      e.box = p->box;
      e.box.offset[0] = part.begin;
      e.box.extent[0] = part.size();
      e.local = flat.flat_slice(p->flat_offset + (part.begin - held.begin) * row, e.box.extent);
      e.owner = owner && first_replica && !second_copy;
      catalog.push_back(std::move(e));
    }
  }
  return catalog;
}

StateCatalog weight_catalog(const ShardedModel& m) { return flat_catalog(m, m.master, "master"); }

}  // namespace trainctl
