// tests/bench/checkpoint_bench.h -- the pieces of checkpoint_bench: states, yardsticks, cases.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpointer.h"
#include "comm/backends.h"
#include "comm/world.h"
#include "device/arena.h"
#include "tensor/catalog.h"
#include "unit/checkpoint/fixture.h"

namespace trainctl::bench {

struct CheckpointBenchOptions {
  std::filesystem::path folder;  // on the file system to measure
  int64_t bytes = 1 << 30;       // of a whole state, over all ranks
  int repeats = 5;
  int64_t write_limit_bytes_per_s = 100'000'000;  // of the slowdown case
  int threads = 2;                                // of its training steps
  std::vector<int> ranks = {1, 2, 4};             // of the disk case, as threads
  std::string io = "auto";                        // checkpoint.io
  std::vector<std::string> cases;                 // empty: all
  bool wants(const std::string& name) const;
};

double now_s();
double process_cpu_s();  // of all threads, the kernel's workers for this process included
double median(std::vector<double> values);

// How ranks hold the tensors: cut by rows, cut by columns, or each all of them (rank 0 then owns them).
enum class Cut : uint8_t { rows, columns, replicas };

// A catalog and the memory of its tensors, which is released after them.
class OwnedCatalog {
 public:
  OwnedCatalog() : device_(make_cpu_device()), arena_(std::make_unique<Arena>(*device_)) {}
  StateCatalog& catalog() { return catalog_; }
  Arena& arena() { return *arena_; }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Arena> arena_;

 protected:
  StateCatalog catalog_;
};

// One rank's share of a state of f32 masters, exp_avg and exp_avg_sq; every element is finite and depends on its index.
class BenchState : public OwnedCatalog {
 public:
  BenchState(int64_t total_bytes, int64_t rank, int64_t world, Cut cut = Cut::rows);
  void wipe();
  std::vector<std::string> digests() const;  // of every local tensor
  int64_t bytes() const;                     // of all local tensors
};

// Bytes per second of direct 8 MiB transfers, 8 in flight, by `jobs` jobs at once, each with a file of its own of
// `bytes_per_job`; writing includes fdatasync. By fio where it is installed, else by a loop of this program.
class DiskYardstick {
 public:
  explicit DiskYardstick(std::filesystem::path folder);
  const std::string& name() const { return name_; }
  double write(int jobs, int64_t bytes_per_job) const;
  double read(int jobs, int64_t bytes_per_job) const;  // the files are written first, untimed

 private:
  double fio(const std::string& mode, int jobs, int64_t bytes_per_job, bool keep) const;
  double loop(bool writing, int jobs, int64_t bytes_per_job) const;
  std::filesystem::path folder_;
  bool has_fio_;
  std::string name_;
};

// A rank that is a thread of this process, with the comm layer between the ranks as in a run.
class BenchRank {
 public:
  BenchRank(testing::ThreadWorld& meeting, ThreadsHub& hub, int64_t rank);
  const Agreement& agreement() const { return agreement_; }
  void finalize() { world_->finalize(); }  // every rank calls it

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<World> world_;
  Agreement agreement_;
};

// Every case checks what it measured and throws when it is wrong.
void bench_stall(const CheckpointBenchOptions& options);
void bench_lazy_stall(const CheckpointBenchOptions& options, int64_t tokens_per_step);
void bench_write_and_load(const CheckpointBenchOptions& options);
void bench_resharding(const CheckpointBenchOptions& options);
void bench_written_bytes(const CheckpointBenchOptions& options);
void bench_step_slowdown(const CheckpointBenchOptions& options);
// Training steps beside `trainctl checkpoint export` of the same model.
void bench_export_beside(const CheckpointBenchOptions& options);
void bench_commit(const CheckpointBenchOptions& options);  // 8 ranks, 10000 small tensors

}  // namespace trainctl::bench
