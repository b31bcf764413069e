// tests/bench/train_bench.cpp -- tokens per second of a whole training step on one rank, as a fraction of the FMA peak
// measured in the same run; a wrong loss is a failure, however fast.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <vector>

#include "bench_source.h"
#include "comm/counting.h"
#include "kernels/common/threads.h"
#include "topology/measure.h"
#include "trainer/engine.h"

namespace {

using namespace trainctl;

using bench::BenchSource;

struct Options {
  std::string recipe = "recipes/gpt2_124m.json";
  int64_t batch = 4, sequence = 256, steps = 6;
  int threads = 2;
};

struct Result {
  double tokens_per_s = 0, model_fraction = 0, peak = 0;
};

Result run(const Options& o, const std::string& precision) {
  const LoadedRecipe loaded =
      load_recipe(o.recipe, {fmt::format("data.sequence_tokens={}", o.sequence),
                             fmt::format("runtime.micro_batch_size={}", o.batch),
                             fmt::format("runtime.global_batch_size={}", o.batch), "runtime.micro_batches=1",
                             "runtime.precision=" + precision, "runtime.recompute=none", "optimizer.lr=0.001",
                             R"(optimizer.schedule={"kind":"constant"})"});
  const ResolveResult resolved = resolve(loaded, 1);
  refuse_faults(o.recipe, resolved.faults);
  const Recipe& recipe = resolved.recipe;
  kernels::set_kernel_threads(o.threads);
  BenchSource source(recipe.model.vocab.value.value(), o.sequence);
  auto engine = assemble(recipe, {.device = make_cpu_device(),
                                  .kernels = kernels::cpu_kernels(),
                                  .collectives = make_counting_collectives(0, 1, 1 << 20),
                                  .source = &source,
                                  .on_place = {}});
  initialise_weights(engine->model, 1);

  const PeakFlops peak = measure_peak_flops(o.threads, precision == "bf16" ? FlopType::bf16 : FlopType::f32);
  std::vector<double> seconds;
  double first_loss = 0, last_loss = 0;
  for (int64_t step = 1; step <= o.steps; ++step) {
    const StepReport report = engine->runtime->step(step);
    if (step == 1) first_loss = report.loss;
    last_loss = report.loss;
    if (step > 1) seconds.push_back(report.step_s);
  }
  const double uniform = std::log(static_cast<double>(recipe.model.vocab.value.value()));
  if (std::abs(first_loss - uniform) > 0.5 || !(last_loss < first_loss))
    fail(ErrorKind::internal, fmt::format("{}: the loss went from {} to {}; a new model starts near {} and learns",
                                          precision, first_loss, last_loss, uniform));
  std::sort(seconds.begin(), seconds.end());
  const double median = seconds[seconds.size() / 2];
  const double flops = static_cast<double>(model_flops(recipe.model, o.batch, o.sequence));
  const Result r{static_cast<double>(o.batch * o.sequence) / median, flops / median / peak.flops_per_s,
                 peak.flops_per_s};
  fmt::print(
      "{:<5} {:>9.1f} tokens/s  {:>6.1f} GFLOP/s of {:>6.1f} ({}, {} threads): {:>5.1f} %   step {:.0f} ms, loss "
      "{:.3f} -> {:.3f}, peak memory {:.2f} GiB\n",
      precision, r.tokens_per_s, flops / median / 1e9, peak.flops_per_s / 1e9, peak.instruction, o.threads,
      100 * r.model_fraction, median * 1e3, first_loss, last_loss,
      static_cast<double>(engine->arena->counters().peak_total) / (1 << 30));
  return r;
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  CLI::App app("Whole training steps of one rank: tokens/s and the fraction of the measured FMA peak (model FLOPs)");
  app.add_option("--recipe", o.recipe, "Recipe file")->capture_default_str();
  app.add_option("--batch", o.batch, "Sequences per step")->capture_default_str();
  app.add_option("--sequence", o.sequence, "Tokens per sequence")->capture_default_str();
  app.add_option("--steps", o.steps, "Steps; the first is not timed")
      ->capture_default_str()
      ->check(CLI::Range(3, 1000));
  app.add_option("--threads", o.threads, "Threads")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    const Result f32 = run(o, "f32"), bf16 = run(o, "bf16");
    fmt::print("bf16 / f32: {:.2f} x tokens/s\n", bf16.tokens_per_s / f32.tokens_per_s);
  } catch (const std::exception& error) {
    fmt::print(stderr, "trainctl_bench: {}\n", error.what());
    return 1;
  }
  return 0;
}
