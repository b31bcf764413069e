// tests/bench/comm_bench.cpp -- latency and bandwidth of every collective, results checked first.
//   comm_bench threads RANKS          ranks as threads of this process
//   scripts/mpi_run RANKS comm_bench mpi
// Prints, per operation and size: median time, bytes one rank sends per second, and that rate relative to a plain
// memory copy measured in the same run. CPU: processor time of the process during the measurement per wall time.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <numeric>
#include <string>
#include <vector>

#include "comm/backends.h"
#include "support/collective_laws.h"
#include "support/thread_ranks.h"

using namespace trainctl;
using namespace trainctl::testing;

namespace {

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
double cpu_s() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double copy_bytes_per_s() {
  std::vector<char> from(64 << 20, 1), to(from.size());
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    const double start = now_s();
    std::memcpy(to.data(), from.data(), from.size());
    best = std::max(best, static_cast<double>(from.size()) / (now_s() - start));
  }
  return to[from.size() / 2] == 1 ? best : 0;
}

// All ranks call it together. One trial is checked; then the same buffers serve for timing.
void measure(Collectives& backend, const GroupInfo& world, Operation operation, int64_t bytes, double copy_rate) {
  CollectiveCase c{.operation = operation, .dtype = DType::f32, .rows = bytes / 4, .exact = true, .in_place = false};
  if (operation == Operation::all_to_all) c.rows /= static_cast<int64_t>(world.ranks.size());
  check_collective(backend, world, c, CollectivesOptions{}.message_chunk_bytes);
  CollectiveTrial trial(backend, world, c);
  CollectiveCase back = c;
  back.operation = Operation::recv;
  CollectiveTrial receive(backend, world, operation == Operation::send ? back : c);
  CollectiveTrial barrier(backend, world, {.operation = Operation::barrier});
  const auto once = [&] {
    trial.start();
    if (operation == Operation::send) {
      receive.start();
      receive.wait();
    }
    trial.wait();
  };
  const int repeats = bytes <= 65536 ? 200 : bytes <= (1 << 20) ? 40 : 8;
  for (int i = 0; i < 3; ++i) once();
  const Cost before = backend.sent(world, operation);
  std::vector<double> times;
  const double wall = now_s(), cpu = cpu_s();
  for (int i = 0; i < repeats; ++i) {
    barrier.start();
    barrier.wait();
    const double start = now_s();
    once();
    times.push_back(now_s() - start);
  }
  const double busy = (cpu_s() - cpu) / (now_s() - wall);
  std::nth_element(times.begin(), times.begin() + repeats / 2, times.end());
  const double median = times[static_cast<size_t>(repeats) / 2];
  const double sent = static_cast<double>(backend.sent(world, operation).bytes - before.bytes) / repeats;
  if (backend.rank() == 0)
    fmt::print("{:<15} {:>10} B {:>11.1f} us {:>9.3f} GB/s sent {:>6.1f} % of copy  CPU {:.2f}\n", name(operation),
               bytes, median * 1e6, sent / median * 1e-9, 100 * sent / median / copy_rate, busy);
}

void bench(Collectives& backend) {
  std::vector<int> ranks(static_cast<size_t>(backend.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  const GroupInfo world = group_of(0, "world", ranks, backend.rank());
  double copy_rate = 1;  // measured by rank 0 while the others wait
  if (backend.rank() == 0) copy_rate = copy_bytes_per_s();
  check_collective(backend, world, {.operation = Operation::barrier}, CollectivesOptions{}.message_chunk_bytes);
  if (backend.rank() == 0) fmt::print("{} ranks; memory copy {:.2f} GB/s\n", backend.size(), copy_rate * 1e-9);
  measure(backend, world, Operation::barrier, 0, copy_rate);
  for (const Operation op : {Operation::send, Operation::all_reduce, Operation::reduce_scatter, Operation::all_gather,
                             Operation::all_to_all, Operation::broadcast})
    for (const int64_t bytes : {int64_t{256}, int64_t{16} << 10, int64_t{1} << 20, int64_t{16} << 20})
      measure(backend, world, op, bytes, copy_rate);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  try {
    if (mode == "mpi") {
      const auto backend = make_mpi_world_collectives();
      bench(*backend);
      backend->finalize();
      return 0;
    }
    const int ranks = argc > 2 ? std::atoi(argv[2]) : 0;
    if (mode == "threads" && ranks >= 1) {
      run_thread_ranks(ranks, {}, [](std::unique_ptr<Collectives> backend) {
        bench(*backend);
        backend->finalize();
      });
      return 0;
    }
  } catch (const std::exception& e) {
    fmt::print(stderr, "comm_bench: {}\n", e.what());
    if (mode == "mpi") abort_mpi(4);
    return 4;
  }
  fmt::print(stderr, "usage: comm_bench threads RANKS | scripts/mpi_run RANKS comm_bench mpi\n");
  return 2;
}
