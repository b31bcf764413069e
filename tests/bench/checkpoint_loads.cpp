// tests/bench/checkpoint_loads.cpp -- loading under another layout: how often the disk gives each byte, and how fast.
#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "base/error.h"
#include "checkpoint_bench.h"

namespace trainctl::bench {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kSavers = 3;  // no layout below has so many ranks

struct Layout {
  Cut cut;
  const char* name;
};
constexpr Layout kLayouts[] = {{Cut::rows, "rows"}, {Cut::columns, "columns"}, {Cut::replicas, "replicas"}};

void save(const CheckpointBenchOptions& o, const fs::path& folder) {
  testing::ThreadWorld ranks(kSavers);
  testing::on_ranks(kSavers, [&](int64_t r) {
    BenchState state(o.bytes, r, kSavers);
    Checkpointer c =
        build_checkpointer({}, testing::options_for(folder, ranks.agreement(r)), state.arena(), state.catalog());
    c.save(state.catalog(), testing::scalars_at(1), SaveReason::interval);
    for (const SaveOutcome& outcome : c.wait())
      if (!outcome.ok) fail(ErrorKind::internal, "not saved: " + outcome.reason);
  });
}

struct Load {
  double longest_s = 0, cpu_s = 0;
  LoadCost cost;  // of rank 0: the sums over all ranks
};

Load load(const CheckpointBenchOptions& o, const fs::path& folder, int64_t world, Cut cut) {
  testing::ThreadWorld ranks(world);
  const std::shared_ptr<ThreadsHub> hub = make_threads_hub(static_cast<int>(world));
  std::mutex mutex;
  Load all;
  testing::on_ranks(world, [&](int64_t r) {
    BenchRank rank(ranks, *hub, r);
    BenchState state(o.bytes, r, world, cut);
    const std::vector<std::string> expected = state.digests();
    state.wipe();
    CheckpointConfig config;
    config.io = o.io;
    Checkpointer c =
        build_checkpointer(config, testing::options_for(folder, rank.agreement()), state.arena(), state.catalog());
    rank.agreement().all_agree(true);
    const double start = now_s(), cpu = process_cpu_s();
    const RestoreResult result = c.restore(state.catalog());
    const double seconds = now_s() - start;
    rank.agreement().all_agree(true);
    if (r == 0) all.cpu_s = process_cpu_s() - cpu;
    rank.agreement().all_agree(true);  // from here on other work
    if (!result.found || state.digests() != expected)
      fail(ErrorKind::internal, "what was loaded is not what was saved");
    rank.finalize();
    const std::lock_guard lock(mutex);
    all.longest_s = std::max(all.longest_s, seconds);
    if (r == 0) all.cost = result.cost;
  });
  return all;
}

}  // namespace

void bench_resharding(const CheckpointBenchOptions& o) {
  const DiskYardstick disk(o.folder);
  const fs::path folder = o.folder / "run";
  save(o, folder);
  const int64_t unique = BenchState(o.bytes, 0, 1).bytes();
  const auto ratio = [unique](int64_t bytes) { return static_cast<double>(bytes) / static_cast<double>(unique); };
  fmt::print("reshard, {:.2f} GB saved by {} ranks in rows, against {}\n", static_cast<double>(unique) / 1e9, kSavers,
             disk.name());
  for (const int world : o.ranks)
    for (const Layout& layout : kLayouts) {
      if (world == 1 && layout.cut != Cut::rows) continue;  // one rank has the same boxes in all of them
      std::vector<double> rate, yardstick, cpu;
      LoadCost cost;
      for (int i = 0; i < o.repeats; ++i) {
        yardstick.push_back(disk.read(world, o.bytes / world));
        const Load one = load(o, folder, world, layout.cut);
        rate.push_back(static_cast<double>(unique) / one.longest_s);
        cpu.push_back(one.cpu_s);
        cost = one.cost;
      }
      fmt::print(
          "  {} rank{}, {}: read / unique bytes {:.4f}  needed {:.4f}  handed over {:.4f}  load {:.2f} GB/s of unique "
          "bytes = {:.2f} x of {:.2f}  CPU {:.2f} s/GB\n",
          world, world > 1 ? "s" : "", layout.name, ratio(cost.world.read), ratio(cost.world.needed),
          ratio(cost.world.received), median(rate) / 1e9, median(rate) / median(yardstick), median(yardstick) / 1e9,
          median(cpu) / static_cast<double>(unique) * 1e9);
    }
  fs::remove_all(folder);
}

}  // namespace trainctl::bench
