// tests/bench/checkpoint_slowdown.cpp -- training steps while a save is in flight, against steps without one.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "bench_trainee.h"
#include "checkpoint/shard_plan.h"
#include "checkpoint/verify.h"
#include "checkpoint_bench.h"
#include "unit/checkpoint/fixture.h"

namespace trainctl::bench {
namespace fs = std::filesystem;
namespace {

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
void bench_lazy_stall(const CheckpointBenchOptions& o, int64_t tokens_per_step) {
  Trainee trainee(o.threads, tokens_per_step);
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
      "stall, lazy copy, {:.2f} GB: memcpy {:.0f} ms  save() and waiting {:.2f} x (waiting alone {:.2f} x)  step of {} "
      "tokens {:.0f} ms, with the copy beside it {:.2f} x (slowest {:.2f} x, without one {:.2f} x)\n",
      static_cast<double>(bytes) / 1e9, copy * 1e3, median(stalls) / copy, median(waits) / copy, tokens_per_step,
      median(quiet) * 1e3, median(after) / median(quiet), *std::max_element(after.begin(), after.end()) / median(quiet),
      *std::max_element(quiet.begin(), quiet.end()) / median(quiet));
}

void bench_step_slowdown(const CheckpointBenchOptions& o) {
  Trainee trainee(o.threads, 64);
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
