// tests/bench/checkpoint_disk.cpp -- the stall against a memory copy; writing and loading against the disk; bytes.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/error.h"
#include "checkpoint/io_buffer.h"
#include "checkpoint_bench.h"

namespace trainctl::bench {
namespace fs = std::filesystem;
namespace {

constexpr double kGB = 1e9;

SaveOutcome saved(Checkpointer& checkpointer) {
  const std::vector<SaveOutcome> outcomes = checkpointer.wait();
  if (outcomes.size() != 1 || !outcomes.front().ok)
    fail(ErrorKind::internal, "not saved: " + (outcomes.empty() ? "no outcome" : outcomes.front().reason));
  return outcomes.front();
}

// What the ranks of one save or load say, met under a lock.
struct Meeting {
  std::mutex mutex;
  double longest_s = 0;
  int64_t bytes = 0;
  std::string io_path;
  void join(double seconds, int64_t count, const std::string& path) {
    const std::lock_guard lock(mutex);
    longest_s = std::max(longest_s, seconds);
    bytes += count;
    io_path = path;
  }
  double rate() const { return static_cast<double>(bytes) / longest_s; }
};

struct DiskRow {
  double write = 0, write_to_commit = 0, load = 0, cpu_s_per_gb = 0;  // bytes per second; one repeat
  std::string io_path;
};

// Saves and loads one state by `world` ranks that are threads, and compares every tensor.
DiskRow save_and_load(const CheckpointBenchOptions& o, int64_t world) {
  const fs::path folder = o.folder / "run";
  testing::ThreadWorld ranks(world);
  const std::shared_ptr<ThreadsHub> hub = make_threads_hub(static_cast<int>(world));
  Meeting write, commit, load;
  DiskRow row;
  testing::on_ranks(world, [&](int64_t r) {
    BenchRank rank(ranks, *hub, r);
    BenchState state(o.bytes, r, world);
    const std::vector<std::string> before = state.digests();
    CheckpointConfig config;
    config.io = o.io;
    config.copy = "blocking";  // the copy is the stall's business, and done before the clocks start
    Checkpointer c =
        build_checkpointer(config, testing::options_for(folder, rank.agreement()), state.arena(), state.catalog());
    rank.agreement().all_agree(true);
    c.save(state.catalog(), testing::scalars_at(1), SaveReason::interval);
    rank.agreement().all_agree(true);  // all are staged: from here on only writers work
    const double cpu = process_cpu_s();
    const SaveOutcome outcome = saved(c);
    write.join(outcome.write_s, outcome.bytes, outcome.io_path);
    commit.join(outcome.total_s - outcome.staging_s, outcome.bytes, outcome.io_path);
    rank.agreement().all_agree(true);
    if (r == 0) row.cpu_s_per_gb = process_cpu_s() - cpu;
    state.wipe();
    rank.agreement().all_agree(true);
    const double start = now_s();
    const RestoreResult result = c.restore(state.catalog());
    load.join(now_s() - start, result.cost.rank.needed, result.cost.io_path);
    if (!result.found || state.digests() != before) fail(ErrorKind::internal, "what was loaded is not what was saved");
    rank.finalize();
  });
  fs::remove_all(folder);
  row.write = write.rate();
  row.write_to_commit = commit.rate();
  row.load = load.rate();
  row.cpu_s_per_gb /= static_cast<double>(write.bytes) / kGB;
  row.io_path = write.io_path;
  return row;
}

}  // namespace

void bench_stall(const CheckpointBenchOptions& o) {
  BenchState state(o.bytes, 0, 1);
  const int64_t bytes = state.bytes();
  IoBuffer warm(bytes);
  std::memset(warm.data(), 1, static_cast<size_t>(bytes));
  CheckpointConfig config;
  config.keep = 1;
  config.io = o.io;
  config.copy = "blocking";
  Checkpointer c = build_checkpointer(config, testing::options_for(o.folder / "run"), state.arena(), state.catalog());
  std::vector<double> copies, staging, calls;
  for (int i = 0; i <= o.repeats; ++i) {
    double start = now_s();
    int64_t at = 0;
    for (const StateEntry& e : state.catalog()) {
      std::memcpy(warm.data() + at, e.local.data(), static_cast<size_t>(e.local.bytes()));
      at += e.local.bytes();
    }
    const double copy = now_s() - start;
    start = now_s();
    c.save(state.catalog(), testing::scalars_at(i + 1), SaveReason::interval);
    const double call = now_s() - start;
    const SaveOutcome outcome = saved(c);
    if (i == 0) continue;  // the folder's first save makes it
    copies.push_back(copy);
    staging.push_back(outcome.staging_s);
    calls.push_back(call);
  }
  BenchState other(o.bytes, 0, 1);
  other.wipe();
  if (!c.restore(other.catalog()).found || other.digests() != state.digests())
    fail(ErrorKind::internal, "what was loaded is not what was saved");
  fs::remove_all(o.folder / "run");
  const double copy = median(copies);
  fmt::print(
      "stall, blocking copy, {:.2f} GB: memcpy {:.0f} ms ({:.2f} GB/s)  staging {:.2f} x  whole save() {:.2f} x\n",
      static_cast<double>(bytes) / kGB, copy * 1e3, static_cast<double>(bytes) / copy / kGB, median(staging) / copy,
      median(calls) / copy);
}

void bench_write_and_load(const CheckpointBenchOptions& o) {
  const DiskYardstick disk(o.folder);
  fmt::print("disk, {:.2f} GB, against {}\n", static_cast<double>(o.bytes) / kGB, disk.name());
  for (const int world : o.ranks) {
    std::vector<double> write, to_commit, load, cpu, disk_write, disk_read;
    std::string io_path;
    for (int i = 0; i < o.repeats; ++i) {  // alternating: a shared disk changes its mind by the minute
      disk_write.push_back(disk.write(world, o.bytes / world));
      const DiskRow row = save_and_load(o, world);
      disk_read.push_back(disk.read(world, o.bytes / world));
      write.push_back(row.write);
      to_commit.push_back(row.write_to_commit);
      load.push_back(row.load);
      cpu.push_back(row.cpu_s_per_gb);
      io_path = row.io_path;
    }
    const double w = median(disk_write), r = median(disk_read);
    fmt::print(
        "  {} rank{} ({}): write {:.2f} GB/s = {:.2f} x of {:.2f} (to the commit {:.2f} x)  load {:.2f} GB/s = {:.2f} "
        "x "
        "of {:.2f}  writer CPU {:.3f} s/GB\n",
        world, world > 1 ? "s" : "", io_path, median(write) / kGB, median(write) / w, w / kGB, median(to_commit) / w,
        median(load) / kGB, median(load) / r, r / kGB, median(cpu));
  }
}

void bench_written_bytes(const CheckpointBenchOptions& o) {
  const int64_t total = std::min<int64_t>(o.bytes, 256 << 20);
  for (const int64_t world : {1, 2, 4, 8}) {
    const fs::path folder = o.folder / "run";
    testing::ThreadWorld ranks(world);
    int64_t unique = 0;
    testing::on_ranks(world, [&](int64_t r) {
      BenchState state(total, r, world, Cut::replicas);
      Checkpointer c =
          build_checkpointer({}, testing::options_for(folder, ranks.agreement(r)), state.arena(), state.catalog());
      c.save(state.catalog(), testing::scalars_at(1), SaveReason::interval);
      saved(c);
      if (r == 0) unique = state.bytes();
    });
    int64_t written = 0;
    for (const fs::path& file : testing::files_below(folder / "step-00000001"))
      written += static_cast<int64_t>(fs::file_size(file));
    fs::remove_all(folder);
    if (written < unique) fail(ErrorKind::internal, "a checkpoint is smaller than the state it holds");
    fmt::print("bytes, {} data-parallel replica{}: written / unique {:.5f}\n", world, world > 1 ? "s" : "",
               static_cast<double>(written) / static_cast<double>(unique));
  }
}

}  // namespace trainctl::bench
