// lib/recipe/resolve.cpp -- a new recipe in which nothing is left to a default.
#include <fmt/format.h>

#include <cmath>

#include "base/units.h"
#include "recipe/batch.h"
#include "recipe/layouts.h"
#include "recipe/recipe.h"
#include "recipe/stage_split.h"

namespace trainctl {
namespace {

void resolve_model(ModelConfig& m, const DataConfig& data, const ConfigSource& source) {
  const bool gpt2 = m.family == "gpt2";
  if (!m.kv_heads) m.kv_heads = m.heads;
  if (!m.head_dim) m.head_dim = m.d_model / m.heads;
  if (!m.d_ff) m.d_ff = 4 * m.d_model;  // gpt2 only: validate() demands it of the others
  if (!m.vocab.value) m.vocab.value = tokenizer_vocab(data.tokenizer);
  if (m.max_positions == 0) m.max_positions = data.sequence_tokens;
  if (!source.given("model.tie_embeddings") && gpt2) m.tie_embeddings = true;
  if (!m.activation) m.activation = gpt2 ? "gelu_tanh" : "swiglu";
  if (m.rope.scaling == "yarn" && !m.rope.attention_factor) m.rope.attention_factor = 0.1 * std::log(m.rope.factor) + 1;
}

// Token files made elsewhere may keep to fewer ids; those that `data prepare` makes do not.
void warn_of_vocab(const Recipe& r, std::vector<std::string>& warnings) {
  const int64_t vocab = r.model.vocab.value.value(), ids = tokenizer_vocab(r.data.tokenizer);
  if (vocab < ids)
    warnings.push_back(
        fmt::format("model.vocab {} is less than the {} ids of data.tokenizer \"{}\": a launch fails at "
                    "the first id from {} on; the usual value is \"tokenizer\" or {}",
                    vocab, ids, r.data.tokenizer.kind, vocab, ids));
}

}  // namespace

// The tokenizers a recipe can name are the choices of TokenizerConfig::describe.
int64_t tokenizer_vocab(const TokenizerConfig&) { return 257; }

ResolveResult resolve(const LoadedRecipe& loaded, int64_t world_size) {
  ResolveResult result{loaded.recipe, validate(loaded.recipe, loaded.source)};
  if (!result.faults.empty()) return result;
  Recipe& r = result.recipe;
  const auto refuse = [&](const std::string& path, const std::string& why) {
    result.faults.push_back(loaded.source.fault(path, why));
  };
  if (world_size < 1) {
    refuse("parallelism", fmt::format("a world of {} ranks is none; at least {} needed", world_size,
                                      counted(smallest_world(loaded.recipe), "is", "are")));
    return result;
  }
  resolve_model(r.model, r.data, loaded.source);
  const DataParallel data = fit_world(r, world_size);
  if (!data.fault.empty()) {
    refuse("parallelism", data.fault);
    return result;
  }
  r.parallelism.data_parallel.value = data.degree;

  const BatchNumbers batch = solve_batch(r.runtime, data.degree);
  if (!batch.fault.empty()) {
    refuse(batch.fault_key, batch.fault);
    return result;
  }
  r.runtime.micro_batch_size = batch.micro_batch_size;
  r.runtime.micro_batches = batch.micro_batches;
  r.runtime.global_batch_size = batch.global_batch_size;

  if (r.parallelism.pipeline_layers.empty())
    r.parallelism.pipeline_layers =
        balance_stages(stage_costs(r.model, r.data.sequence_tokens), r.model.layers, r.parallelism.pipeline_parallel);
  ScheduleConfig& schedule = r.optimizer.schedule;
  if (schedule.decay_steps == 0 && (schedule.kind == "linear" || schedule.kind == "cosine"))
    schedule.decay_steps = r.runtime.steps;
  warn_of_vocab(r, result.warnings);
  return result;
}

}  // namespace trainctl
