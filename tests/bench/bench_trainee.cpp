// tests/bench/bench_trainee.cpp -- see the header.
#include "bench_trainee.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "checkpoint_bench.h"
#include "comm/counting.h"
#include "kernels/common/threads.h"

namespace trainctl::bench {
namespace {

constexpr int64_t kSequence = 64, kVocab = 16384;

Recipe small_gpt2(int64_t tokens_per_step) {
  const std::string file = "recipes/gpt2_124m.json";
  const int64_t batch = tokens_per_step / kSequence;
  const LoadedRecipe loaded = load_recipe(
      file, {"model.layers=4", "model.d_model=512", "model.heads=8", fmt::format("model.vocab={}", kVocab),
             fmt::format("data.sequence_tokens={}", kSequence), fmt::format("runtime.micro_batch_size={}", batch),
             fmt::format("runtime.global_batch_size={}", batch), "runtime.micro_batches=1", "runtime.precision=f32",
             "runtime.recompute=none", "optimizer.lr=0.001", R"(optimizer.schedule={"kind":"constant"})"});
  const ResolveResult resolved = resolve(loaded, 1);
  refuse_faults(file, resolved.faults);
  return resolved.recipe;
}

}  // namespace

Trainee::Trainee(int threads, int64_t tokens_per_step)
    : recipe_(small_gpt2(tokens_per_step)), source_(kVocab, kSequence) {
  kernels::set_kernel_threads(threads);
  engine_ = assemble(recipe_, {.device = make_cpu_device(),
                               .kernels = kernels::cpu_kernels(),
                               .collectives = make_counting_collectives(0, 1, 1 << 20),
                               .source = &source_,
                               .on_place = {}});
  initialise_weights(engine_->model, 1);
}

double Trainee::step() {
  const double start = now_s();
  const StepReport report = engine_->runtime->step(++steps_);
  if (steps_ == 1) first_loss_ = report.loss;
  last_loss_ = report.loss;
  return now_s() - start;
}

void Trainee::check() const {
  if (std::abs(first_loss_ - std::log(static_cast<double>(kVocab))) > 0.5 || !(last_loss_ < first_loss_))
    fail(ErrorKind::internal, fmt::format("the loss went from {} to {}", first_loss_, last_loss_));
}

}  // namespace trainctl::bench
