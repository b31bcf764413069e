// lib/topology/measure.cpp -- timed windows in which all threads start together.
#include "topology/measure.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "base/error.h"
#include "topology/flop_loop.h"

namespace trainctl {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double thread_processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Windows {
  int threads = 1;
  double seconds = 0.2;                        // repeat until they have passed, at least twice
  std::function<void(int)> prepare, work;      // called with the thread's index
  std::function<double(double)> rate_of_last;  // given the wall time in which all threads finished their work
};

// Calls prepare once per thread, then work again and again, each time on all threads at once; returns the highest rate.
double best_rate(const Windows& w) {
  double best = 0;
  bool stop = false;
  int windows = 0;
  Clock::time_point window_start;
  const Clock::time_point start = Clock::now();
  // Run by the last thread to arrive, while the others wait: no other synchronisation is needed.
  const auto between = [&]() noexcept {
    if (windows > 0) best = std::max(best, w.rate_of_last(seconds_since(window_start)));
    stop = windows >= 2 && seconds_since(start) >= w.seconds;
    ++windows;
    window_start = Clock::now();
  };
  std::barrier barrier(w.threads, between);
  std::vector<std::thread> pool;
  for (int t = 0; t < w.threads; ++t)
    pool.emplace_back([&, t] {
      w.prepare(t);
      for (barrier.arrive_and_wait(); !stop; barrier.arrive_and_wait()) w.work(t);
    });
  for (std::thread& thread : pool) thread.join();
  return best;
}

// Runs the loop once and compares every lane with the exact sum.
bool run_checked(const FlopLoop& loop, int64_t iterations) {
  float out[kMaxFlopResults];
  loop.run(iterations, out);
  bool exact = true;
  for (int chain = 0; chain < loop.chains; ++chain)
    for (int lane = 0; lane < loop.lanes; ++lane)
      exact = exact &&
              out[chain * loop.lanes + lane] == static_cast<float>(chain) + static_cast<float>(iterations) * loop.step;
  return exact;
}

// One thread's arrays. Allocated without being touched: the thread that uses them does that first, so that the pages
// land in its memory domain.
struct Triad {
  static constexpr double kScale = 3.0;
  size_t count;
  std::unique_ptr<double[]> a, b, c;

  explicit Triad(size_t n)
      : count(n),
        a(std::make_unique_for_overwrite<double[]>(n)),
        b(std::make_unique_for_overwrite<double[]>(n)),
        c(std::make_unique_for_overwrite<double[]>(n)) {}
  void touch() {
    for (size_t i = 0; i < count; ++i) a[i] = 0, b[i] = 1, c[i] = static_cast<double>(i % 7);
  }
  void run() {
    double *x = a.get(), *y = b.get(), *z = c.get();
    for (size_t i = 0; i < count; ++i) x[i] = y[i] + kScale * z[i];
  }
  bool exact() const {
    for (const size_t i : {size_t{0}, count / 2, count - 1})
      if (a[i] != 1 + kScale * static_cast<double>(i % 7)) return false;
    return true;
  }
};

}  // namespace

int usable_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int processors = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set)
                                                                : static_cast<int>(std::thread::hardware_concurrency());
  // Control groups, version 2: "<quota> <period>" in microseconds, or "max <period>".
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double quota = 0, period = 0;
  if (file >> quota >> period && quota > 0 && period > 0)
    processors = std::min(processors, static_cast<int>(std::ceil(quota / period)));
  return std::max(processors, 1);
}

PeakFlops measure_peak_flops(int threads, FlopType type, double seconds) {
  if (threads < 1) threads = usable_processors();
  std::vector<FlopLoop> loops = type == FlopType::bf16 ? bf16_flop_loops() : f32_flop_loops();
  if (loops.empty()) loops = f32_flop_loops();
  const FlopLoop loop = loops.front();
  ensure(loop.chains * loop.lanes <= kMaxFlopResults, "a FLOP loop has more results than kMaxFlopResults");

  // One call is short enough for exact sums; a window holds as many calls as last about 10 ms.
  constexpr int64_t iterations = 1 << 16;
  std::atomic<bool> exact{run_checked(loop, iterations)};
  const double start = thread_processor_seconds();
  exact = run_checked(loop, iterations) && exact;
  const auto calls = std::max<int64_t>(1, std::llround(0.01 / std::max(thread_processor_seconds() - start, 1e-6)));
  const double flops = static_cast<double>(calls * iterations) * static_cast<double>(loop.flops_per_iteration);
  std::vector<double> processor_seconds(static_cast<size_t>(threads));
  double rate = best_rate({.threads = threads,
                           .seconds = seconds,
                           .prepare = [](int) {},
                           .work =
                               [&](int t) {
                                 const double begin = thread_processor_seconds();
                                 for (int64_t call = 0; call < calls; ++call)
                                   if (!run_checked(loop, iterations)) exact = false;
                                 processor_seconds[static_cast<size_t>(t)] = thread_processor_seconds() - begin;
                               },
                           .rate_of_last =
                               [&](double) {
                                 double sum = 0;
                                 for (const double s : processor_seconds) sum += flops / std::max(s, 1e-9);
                                 return sum;
                               }});
  if (!exact)
    fail(ErrorKind::internal,
         fmt::format("the {} loop computed wrong sums: the measurement is void", loop.instruction));
  // Threads that take turns on one processor each see all of it.
  rate *= std::min(1.0, static_cast<double>(usable_processors()) / static_cast<double>(threads));
  return {.flops_per_s = rate, .instruction = loop.instruction, .threads = threads};
}

double measure_memory_bandwidth(int threads, int64_t bytes_per_thread, double seconds) {
  if (threads < 1) threads = usable_processors();
  const auto count = static_cast<size_t>(std::max<int64_t>(bytes_per_thread / 8, 1024));
  std::vector<Triad> triads;
  try {
    for (int t = 0; t < threads; ++t) triads.emplace_back(count);
  } catch (const std::bad_alloc&) {
    fail(ErrorKind::memory,
         fmt::format("no room for the {} x 3 arrays of {} bytes that measuring memory bandwidth takes", threads,
                     count * 8));
  }
  const double bytes = static_cast<double>(threads) * static_cast<double>(count) * 24;
  const double rate = best_rate({.threads = threads,
                                 .seconds = seconds,
                                 .prepare = [&](int t) { triads[static_cast<size_t>(t)].touch(); },
                                 .work = [&](int t) { triads[static_cast<size_t>(t)].run(); },
                                 .rate_of_last = [&](double s) { return bytes / s; }});
  for (const Triad& triad : triads) ensure(triad.exact(), "the bandwidth loop computed a wrong value");
  return rate;
}

double measure_copy_rate(int64_t bytes, double seconds) {
  const auto count = static_cast<size_t>(std::max<int64_t>(bytes, 4096));
  std::vector<unsigned char> from(count, 1), to(count, 0);
  unsigned char round = 1;
  const double rate = best_rate({.threads = 1,
                                 .seconds = seconds,
                                 .prepare = [](int) {},
                                 .work =
                                     [&](int) {
                                       from[count / 2] = ++round;
                                       std::memcpy(to.data(), from.data(), count);
                                     },
                                 .rate_of_last = [&](double s) { return static_cast<double>(count) / s; }});
  ensure(to[count / 2] == round, "the copy loop copied a wrong value");
  return rate;
}

}  // namespace trainctl
