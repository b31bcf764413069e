// tests/bench/checkpoint_bench.cpp -- checkpoints against the machine: what a save costs training, how fast the bytes
// reach the disk and come back. Yardsticks are measured in the same run, results are verified before they are printed.
#include "checkpoint_bench.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/hash.h"

using namespace trainctl;
using namespace trainctl::bench;

int main(int argc, char** argv) {
  CheckpointBenchOptions o;
  o.folder = ".";
  int64_t mib = 1024, limit_mb = 100;
  CLI::App app(
      "Checkpoints: stall, write and load bandwidth, slowdown of steps, bytes written, CPU, the protocol itself");
  app.add_option("--folder", o.folder, "Folder on the file system to measure; a new folder in it is used and removed")
      ->check(CLI::ExistingDirectory)
      ->capture_default_str();
  app.add_option("--mib", mib, "Size of a state in MiB, over all ranks")
      ->check(CLI::Range(16, 1 << 20))
      ->capture_default_str();
  app.add_option("--repeats", o.repeats, "Repeats of each measurement; medians are printed")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--limit-mb", limit_mb, "Rate limit of the slowdown case, in 10^6 bytes per second")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--threads", o.threads, "Threads of the training steps")->capture_default_str();
  app.add_option("--ranks", o.ranks, "Ranks of the cases disk and reshard, which are threads")
      ->check(CLI::Range(1, 64))
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  app.add_option("--io", o.io, "checkpoint.io of all cases")
      ->check(CLI::IsMember({"auto", "threads", "buffered"}))
      ->capture_default_str();
  app.add_option("cases", o.cases, "stall, disk, reshard, bytes, slowdown, commit, export; none: all")
      ->check(CLI::IsMember({"stall", "disk", "reshard", "bytes", "slowdown", "commit", "export"}));
  CLI11_PARSE(app, argc, argv);
  o.bytes = mib << 20;
  o.write_limit_bytes_per_s = limit_mb * 1'000'000;
  const std::filesystem::path parent = o.folder;
  o.folder = parent / ("checkpoint-bench-" + random_hex(8));
  int code = 0;
  try {
    std::filesystem::create_directories(o.folder);
    if (o.wants("stall")) {
      bench_stall(o);
      for (const int64_t tokens_per_step : {64, 1024}) bench_lazy_stall(o, tokens_per_step);
    }
    if (o.wants("disk")) bench_write_and_load(o);
    if (o.wants("reshard")) bench_resharding(o);
    if (o.wants("bytes")) bench_written_bytes(o);
    if (o.wants("slowdown")) bench_step_slowdown(o);
    if (o.wants("commit")) bench_commit(o);
    if (o.wants("export")) bench_export_beside(o);
  } catch (const std::exception& error) {
    fmt::print(stderr, "checkpoint_bench: {}\n", error.what());
    code = 1;
  }
  std::error_code ignored;
  std::filesystem::remove_all(o.folder, ignored);
  return code;
}
