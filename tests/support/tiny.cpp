// tests/support/tiny.cpp -- see the header.
#include "support/tiny.h"

#include <fmt/format.h>

#include <cmath>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>

#include "base/philox.h"
#include "comm/backends.h"
#include "kernels/common/threads.h"
#include "support/catch.h"

namespace trainctl::testing {

void SyntheticSource::fill(SampleSplit split, int64_t first, int64_t count, const SampleBuffers& out) {
  for (int64_t j = 0; j < count; ++j) {
    const auto sample = static_cast<uint64_t>(first + j);
    int32_t start = 0;
    for (int64_t t = 0; t < sequence_; ++t) {
      const auto r = philox(split == SampleSplit::train ? 11 : 12, sample, static_cast<uint64_t>(t));
      const int64_t at = j * sequence_ + t;
      if (documents_ && t > 0 && r[2] % 9 == 0) start = static_cast<int32_t>(t);
      out.tokens[at] = static_cast<int32_t>(r[0] % static_cast<uint32_t>(vocab_));
      // Mostly a function of the token, so that there is something to learn; one in eight is not counted.
      out.labels[at] = r[1] % 8 == 0 ? -1 : static_cast<int32_t>((out.tokens[at] * 7 + 3) % vocab_);
      out.positions[at] = static_cast<int32_t>(documents_ ? t - start : t);
      if (out.document_start) out.document_start[at] = start;
    }
  }
}

std::string Layout::text() const {
  return fmt::format("tp{}{} pp{}{} dp{}", tensor, sequence ? "+sp" : "", pipeline,
                     stages.empty() ? "" : fmt::format("({})", fmt::join(stages, ",")), data);
}

namespace {

LoadedRecipe laid_out(const Recipe& recipe, const Layout& layout) {
  LoadedRecipe loaded{.recipe = recipe, .source = {}, .overrides = {}, .replaced = {}};
  ParallelismConfig& p = loaded.recipe.parallelism;
  p.tensor_parallel = layout.tensor;
  p.pipeline_parallel = layout.pipeline;
  p.sequence_parallel = layout.sequence;
  p.data_parallel.value = layout.data;
  if (!layout.stages.empty()) p.pipeline_layers = layout.stages;
  return loaded;
}

}  // namespace

std::vector<Layout> legal_layouts(const Recipe& recipe, int64_t most) {
  std::vector<Layout> layouts;
  for (int64_t tp = 1; tp <= most; ++tp)
    for (int64_t pp = 1; tp * pp <= most; ++pp)
      for (int64_t dp = 1; tp * pp * dp <= most; ++dp)
        for (const bool sp : {false, true}) {
          const Layout layout{tp, pp, dp, sp};
          if (resolve(laid_out(recipe, layout), layout.world()).faults.empty()) layouts.push_back(layout);
        }
  return layouts;
}

Recipe with_layout(Recipe recipe, const Layout& layout) {
  ResolveResult resolved = resolve(laid_out(recipe, layout), layout.world());
  for (const Fault& fault : resolved.faults) FAIL_CHECK(layout.text() << ": " << fault.path << ": " << fault.message);
  REQUIRE(resolved.faults.empty());
  return resolved.recipe;
}

Recipe tiny_recipe(const std::string& family) {
  Recipe r;
  r.name = "tiny_" + family;
  r.model.family = family;
  r.model.layers = 4;
  r.model.d_model = 48;
  r.model.heads = 6;
  if (family != "gpt2") r.model.kv_heads = 2;
  r.model.d_ff = 52;
  r.model.vocab.value = 101;
  r.model.init_std = 0.1;  // larger than usual: gradients of every layer are then well above rounding
  r.data.train.push_back({.path = "synthetic", .weight = 1.0});
  r.data.sequence_tokens = 13;
  r.optimizer.lr = 2e-3;
  r.optimizer.weight_decay = 0.1;
  r.optimizer.clip_grad_norm = 0.05;  // always active
  r.optimizer.eps = 1e-6;
  r.runtime.steps = 5;
  r.runtime.global_batch_size = 24;
  r.runtime.micro_batch_size = 1;
  r.parallelism.bucket_bytes = 16 << 10;
  r.parallelism.message_chunk_bytes = 4096;
  return r;
}

void run_ranks(int size, int64_t message_chunk_bytes, const std::function<void(int, std::unique_ptr<Collectives>)>& f) {
  const auto hub = make_threads_hub(size);
  std::mutex mutex;
  std::exception_ptr failure;
  std::vector<std::thread> ranks;
  for (int r = 0; r < size; ++r)
    ranks.emplace_back([&, r] {
      kernels::set_kernel_threads(1);
      try {
        f(r, hub->collectives_for(r, {.message_chunk_bytes = message_chunk_bytes}));
      } catch (const std::exception& error) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        hub->abort(fmt::format("rank {}: {}", r, error.what()));
      }
    });
  for (std::thread& t : ranks) t.join();
  if (failure) std::rethrow_exception(failure);
}

namespace {

// Adds the owned parts of a rank's catalog into tensors of the logical shape.
void merge(const StateCatalog& catalog, Tensors& into) {
  for (const StateEntry& e : catalog) {
    if (!e.owner) continue;
    auto& whole =
        into.try_emplace(e.name, static_cast<size_t>(e.shape.numel()), std::numeric_limits<float>::quiet_NaN())
            .first->second;
    const auto* local = static_cast<const float*>(e.local.data());
    const int64_t cols = e.shape.rank() == 2 ? e.shape[1] : 1, width = e.shape.rank() == 2 ? e.box.extent[1] : 1;
    const int64_t col = e.shape.rank() == 2 ? e.box.offset[1] : 0;
    for (int64_t r = 0; r < e.box.extent[0]; ++r)
      for (int64_t c = 0; c < width; ++c)
        whole[static_cast<size_t>((e.box.offset[0] + r) * cols + col + c)] = local[r * width + c];
  }
}

// The other way: every held part, owned or not.
void scatter(const Tensors& from, const StateCatalog& catalog) {
  for (const StateEntry& e : catalog) {
    const auto found = from.find(e.name);
    if (found == from.end()) continue;
    auto* local = static_cast<float*>(e.local.data());
    const int64_t cols = e.shape.rank() == 2 ? e.shape[1] : 1, width = e.shape.rank() == 2 ? e.box.extent[1] : 1;
    const int64_t col = e.shape.rank() == 2 ? e.box.offset[1] : 0;
    for (int64_t r = 0; r < e.box.extent[0]; ++r)
      for (int64_t c = 0; c < width; ++c)
        local[r * width + c] = found->second[static_cast<size_t>((e.box.offset[0] + r) * cols + col + c)];
  }
}

}  // namespace

Trace trace(const Recipe& recipe, const TraceOptions& options) {
  Trace result;
  std::mutex mutex;
  const int world = mesh_of(recipe.parallelism).world_size();
  result.counters.resize(static_cast<size_t>(world));
  run_ranks(world, recipe.parallelism.message_chunk_bytes, [&](int rank, std::unique_ptr<Collectives> collectives) {
    SyntheticSource synthetic(recipe.model.vocab.value.value(), recipe.data.sequence_tokens, options.documents);
    auto engine = assemble(recipe, {.device = make_cpu_device(),
                                    .kernels = kernels::cpu_kernels(),
                                    .collectives = std::move(collectives),
                                    .source = options.source ? options.source : &synthetic,
                                    .on_place = {}});
    initialise_weights(engine->model, static_cast<uint64_t>(recipe.runtime.seed));
    if (!options.initial.empty()) {
      scatter(options.initial, weight_catalog(engine->model));
      refresh_compute_weights(engine->model);
    }
    const Checkpointer staging = build_checkpointer(recipe.checkpoint,
                                                    {.folder = {},
                                                     .run_id = {},
                                                     .topology = "{}",
                                                     .provenance = "{}",
                                                     .agreement = {.rank = rank, .world = world},
                                                     .on_point = {}},
                                                    *engine->arena, engine->catalog());
    if (options.before_steps) options.before_steps(*engine);
    RankCounters counters;
    counters.rank = rank;
    for (int64_t step = 1; step <= options.steps; ++step) {
      if (step == 1) {
        // Gradients do not depend on the optimizer, so the first step's are looked at before it is taken.
        engine->runtime->gradients(1);
        const std::lock_guard lock(mutex);
        merge(flat_catalog(engine->model, engine->model.grads, "gradient"), result.gradients);
      }
      const auto traffic = engine->world->traffic();
      const int64_t flops = engine->context->flops();
      const StepReport report = engine->runtime->step(step);
      engine->any_rank_asks(false);
      counters.hardware_flops = engine->context->flops() - flops;
      counters.traffic = engine->world->traffic();
      for (TrafficRow& row : counters.traffic)
        for (const TrafficRow& old : traffic)
          if (old.axis == row.axis && old.operation == row.operation) {
            row.messages -= old.messages;
            row.bytes -= old.bytes;
          }
      if (rank == 0) {
        result.losses.push_back(report.loss);
        result.norms.push_back(report.grad_norm);
      }
    }
    if (options.evaluate) {
      const double loss = engine->runtime->evaluate();
      if (rank == 0) result.eval_loss = loss;
    }
    counters.at_peak = engine->arena->counters().at_peak;
    counters.peak_bytes = engine->arena->counters().peak_total;
    const std::lock_guard lock(mutex);
    merge(weight_catalog(engine->model), result.weights);
    result.counters[static_cast<size_t>(rank)] = std::move(counters);
    engine->world->finalize();
  });
  return result;
}

double norm_of(const std::vector<float>& a) {
  double sum = 0;
  for (const float x : a) sum += static_cast<double>(x) * static_cast<double>(x);
  return std::sqrt(sum);
}

double relative_error(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    difference += d * d;
  }
  const double scale = norm_of(b);
  if (std::isnan(difference)) return std::numeric_limits<double>::infinity();
  return difference == 0 ? 0 : std::sqrt(difference) / std::max(scale, 1e-30);
}

}  // namespace trainctl::testing
