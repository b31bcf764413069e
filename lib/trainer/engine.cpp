// lib/trainer/engine.cpp -- build_model -> apply_parallelism -> build_optimizer -> build_runtime.
#include "trainer/engine.h"

namespace trainctl {

Mesh mesh_of(const ParallelismConfig& p) {
  return Mesh({.tensor = p.tensor_parallel,
               .context = p.context_parallel,
               .expert = p.expert_parallel,
               .data = p.data_parallel.value.value(),
               .pipeline = p.pipeline_parallel},
              p.order);
}

std::unique_ptr<Engine> assemble(const Recipe& recipe, EngineInputs inputs) {
  auto e = std::make_unique<Engine>();
  e->device = std::move(inputs.device);
  e->arena = std::make_unique<Arena>(*e->device, inputs.memory_limit_bytes);
  e->stream = e->device->make_compute_stream();
  e->context = std::make_unique<Context>(*e->arena, inputs.kernels, *e->stream);
  e->world = std::make_unique<World>(mesh_of(recipe.parallelism), std::move(inputs.collectives), *e->arena);
  e->context->on_place = [recorder = &e->world->recorder(), more = std::move(inputs.on_place)](const char* what,
                                                                                               int layer) {
    recorder->set_place(what, layer);
    if (more) more(what, layer);
  };
  e->flag_ = e->context->empty({1}, DType::i64, MemoryCategory::other);

  e->model = apply_parallelism(build_model(recipe.model), recipe.parallelism, *e->world, *e->context,
                               {.compute_dtype = recipe.runtime.precision == "bf16" ? DType::bf16 : DType::f32});
  e->optimizer = build_optimizer(e->model, recipe.optimizer);
  e->runtime = build_runtime(e->model, *e->optimizer,
                             {.config = recipe.runtime,
                              .optimizer = recipe.optimizer,
                              .pipeline_schedule = recipe.parallelism.pipeline_schedule,
                              .sequence_tokens = recipe.data.sequence_tokens,
                              .document_mask = recipe.data.document_mask,
                              .source = inputs.source});
  return e;
}

StateCatalog Engine::catalog() const {
  StateCatalog all = flat_catalog(model, model.weights, "weight");
  if (model.compute_dtype != DType::f32)
    for (StateEntry& entry : weight_catalog(model)) all.push_back(std::move(entry));
  for (StateEntry& entry : optimizer->catalog()) all.push_back(std::move(entry));
  return all;
}

int64_t Engine::reduced(int64_t value, Reduce op) {
  if (world->size() == 1) return value;
  device->copy_from_host(flag_.data(), &value, sizeof value, *stream);
  world->all().all_reduce(flag_, op, *stream).wait_on(*stream);
  device->copy_to_host(&value, flag_.data(), sizeof value, *stream);
  stream->synchronize();
  return value;
}

bool Engine::any_rank_asks(bool here) { return reduced(here ? 1 : 0, Reduce::max) != 0; }
int64_t Engine::sum_over_ranks(int64_t value) { return reduced(value, Reduce::sum); }

std::string Engine::broadcast_text(const std::string& text) {
  if (world->size() == 1) return text;
  const int64_t length = reduced(world->rank() == 0 ? static_cast<int64_t>(text.size()) : 0, Reduce::max);
  if (length == 0) return {};
  const Tensor bytes = context->empty({length}, DType::u8, MemoryCategory::other);
  if (world->rank() == 0) device->copy_from_host(bytes.data(), text.data(), length, *stream);
  world->all().broadcast(bytes, 0, *stream).wait_on(*stream);
  std::string out(static_cast<size_t>(length), '\0');
  device->copy_to_host(out.data(), bytes.data(), length, *stream);
  stream->synchronize();
  return out;
}

}  // namespace trainctl
