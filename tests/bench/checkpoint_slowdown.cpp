// tests/bench/checkpoint_slowdown.cpp -- training steps while a save is in flight, against steps without one.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "bench_source.h"
#include "checkpoint/shard_plan.h"
#include "checkpoint/verify.h"
#include "checkpoint_bench.h"
#include "comm/counting.h"
#include "kernels/common/threads.h"
#include "trainer/engine.h"
#include "unit/checkpoint/fixture.h"

namespace trainctl::bench {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kSequence = 64, kBatch = 1, kVocab = 16384;

Recipe small_gpt2() {
  const std::string file = "recipes/gpt2_124m.json";
  const LoadedRecipe loaded = load_recipe(
      file, {"model.layers=4", "model.d_model=512", "model.heads=8", fmt::format("model.vocab={}", kVocab),
             fmt::format("data.sequence_tokens={}", kSequence), fmt::format("runtime.micro_batch_size={}", kBatch),
             fmt::format("runtime.global_batch_size={}", kBatch), "runtime.micro_batches=1", "runtime.precision=f32",
             "runtime.recompute=none", "optimizer.lr=0.001", R"(optimizer.schedule={"kind":"constant"})"});
  const ResolveResult resolved = resolve(loaded, 1);
  refuse_faults(file, resolved.faults);
  return resolved.recipe;
}

class Trainee {
 public:
  explicit Trainee(int threads) : recipe_(small_gpt2()), source_(kVocab, kSequence) {
    kernels::set_kernel_threads(threads);
    engine_ = assemble(recipe_, {.device = make_cpu_device(),
                                 .kernels = kernels::cpu_kernels(),
                                 .collectives = make_counting_collectives(0, 1, 1 << 20),
                                 .source = &source_,
                                 .on_place = {}});
    initialise_weights(engine_->model, 1);
  }
  double step() {
    const double start = now_s();
    const StepReport report = engine_->runtime->step(++steps_);
    if (steps_ == 1) first_loss_ = report.loss;
    last_loss_ = report.loss;
    return now_s() - start;
  }
  void check() const {
    if (std::abs(first_loss_ - std::log(static_cast<double>(kVocab))) > 0.5 || !(last_loss_ < first_loss_))
      fail(ErrorKind::internal, fmt::format("the loss went from {} to {}", first_loss_, last_loss_));
  }
  int64_t steps() const { return steps_; }
  Engine& engine() { return *engine_; }

 private:
  Recipe recipe_;
  BenchSource source_;
  std::unique_ptr<Engine> engine_;
  int64_t steps_ = 0;
  double first_loss_ = 0, last_loss_ = 0;
};

struct Flight {
  std::vector<double> quiet, busy;  // seconds of steps without, and wholly within, a save
  double write_s = 0;
};

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

void fly(Trainee& trainee, Checkpointer& c, Flight& flight) {
  trainee.step();  // the save before it may still be removing an older one
  for (int i = 0; i < 16; ++i) flight.quiet.push_back(trainee.step());
  c.save(trainee.engine().catalog(), testing::scalars_at(trainee.steps()), SaveReason::interval);
  for (std::vector<SaveOutcome> outcomes; outcomes.empty();) {
    const double seconds = trainee.step();
    outcomes = c.poll();
    if (outcomes.empty()) {
      flight.busy.push_back(seconds);
      continue;
    }
    const SaveOutcome& o = outcomes.front();
    if (!o.ok) fail(ErrorKind::internal, "not saved: " + o.reason);
    flight.write_s += o.write_s;
    if (const VerifyReport report = verify_checkpoint(o.folder, true); !report.whole())
      fail(ErrorKind::internal, report.faults.front());
  }
}

}  // namespace

// What a lazily copied save takes from training: the call, and the optimizer's waiting in the step after it.
void bench_lazy_stall(const CheckpointBenchOptions& o) {
  Trainee trainee(o.threads);
  for (int i = 0; i < 3; ++i) trainee.step();
  CheckpointConfig config;
  config.keep = 1;
  config.io = o.io;
  config.write_limit_bytes_per_s = o.write_limit_bytes_per_s;  // the step beside the copy, not beside the disk
  const StateCatalog catalog = trainee.engine().catalog();
  Checkpointer c = build_checkpointer(config, testing::options_for(o.folder / "run"), *trainee.engine().arena, catalog);
  trainee.engine().runtime->before_update([&c] { c.wait_copied(); });
  int64_t bytes = 0;
  for (const StateEntry& e : catalog) bytes += e.local.bytes();
  std::vector<char> warm(static_cast<size_t>(bytes), 1);
  std::vector<double> copies, stalls, waits, quiet, after;
  for (int i = 0; i <= 2 * o.repeats; ++i) {
    double start = now_s();
    int64_t at = 0;
    for (const StateEntry& e : catalog) {
      std::memcpy(warm.data() + at, e.local.data(), static_cast<size_t>(e.local.bytes()));
      at += e.local.bytes();
    }
    const double copy = now_s() - start;
    const double before = trainee.step();
    start = now_s();
    c.save(catalog, testing::scalars_at(trainee.steps()), SaveReason::interval);
    const double call = now_s() - start;
    const double next = trainee.step();
    const std::vector<SaveOutcome> outcomes = c.wait();
    if (outcomes.size() != 1 || !outcomes[0].ok) fail(ErrorKind::internal, "not saved");
    if (const VerifyReport report = verify_checkpoint(outcomes[0].folder, true); !report.whole())
      fail(ErrorKind::internal, report.faults.front());
    if (i == 0) continue;
    copies.push_back(copy);
    stalls.push_back(call + outcomes[0].staging_s);
    waits.push_back(outcomes[0].staging_s);
    quiet.push_back(before);
    after.push_back(next);
  }
  trainee.check();
  fs::remove_all(o.folder / "run");
  const double copy = median(copies);
  fmt::print(
      "stall, lazy copy, {:.2f} GB: memcpy {:.0f} ms  save() and waiting {:.2f} x (waiting alone {:.2f} x)  step "
      "{:.0f} ms, "
      "with the copy beside it {:.2f} x\n",
      static_cast<double>(bytes) / 1e9, copy * 1e3, median(stalls) / copy, median(waits) / copy, median(quiet) * 1e3,
      median(after) / median(quiet));
}

void bench_step_slowdown(const CheckpointBenchOptions& o) {
  Trainee trainee(o.threads);
  for (int i = 0; i < 3; ++i) trainee.step();
  for (const int64_t limit : {int64_t{0}, o.write_limit_bytes_per_s}) {
    CheckpointConfig config;
    config.keep = 1;
    config.io = o.io;
    config.write_limit_bytes_per_s = limit;
    Checkpointer c = build_checkpointer(config, testing::options_for(o.folder / "run"), *trainee.engine().arena,
                                        trainee.engine().catalog());
    trainee.engine().runtime->before_update([&c] { c.wait_copied(); });
    Flight flight;
    // Without a limit a save is over after few steps: more of them.
    for (int i = 0; i < o.repeats * (limit == 0 ? 4 : 1); ++i) fly(trainee, c, flight);
    const std::string bound = limit == 0 ? "no rate limit" : fmt::format("limit {} MB/s", limit / 1'000'000);
    const double bytes = static_cast<double>(staging_bytes(trainee.engine().catalog()));
    if (flight.busy.empty()) {
      fmt::print("slowdown, {}: a save of {:.2f} GB ends within one step\n", bound, bytes / 1e9);
      continue;
    }
    const double quiet = median(flight.quiet), quiet_mean = mean(flight.quiet);
    fmt::print(
        "slowdown, {}, {:.2f} GB in {:.2f} s: {} steps without a save, median {:.0f} ms, mean {:.0f} ms; {} steps "
        "within "
        "one: median {:.3f} x, mean {:.3f} x\n",
        bound, bytes / 1e9, flight.write_s / (o.repeats * (limit == 0 ? 4 : 1)), flight.quiet.size(), quiet * 1e3,
        quiet_mean * 1e3, flight.busy.size(), median(flight.busy) / quiet, mean(flight.busy) / quiet_mean);
  }
  trainee.check();
  fs::remove_all(o.folder / "run");
}

}  // namespace trainctl::bench
