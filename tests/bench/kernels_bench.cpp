// tests/bench/kernels_bench.cpp -- CPU kernels at the shapes of gpt2_124m, as shares of the machine's own peaks.
//
// kernels_bench [gemm|attention|memory] [SECONDS_PER_CASE]. Threads: OMP_NUM_THREADS. With one thread the clock is the
// thread's processor time, which other work on the machine does not disturb; with more it is wall time.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string_view>

#include "base/error.h"
#include "base/philox.h"
#include "kernel_bench.h"
#include "kernels/common/threads.h"
#include "topology/measure.h"

namespace trainctl::bench {
namespace {

double now(int threads) {
  timespec t{};
  clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// a = b + 3 c, the yardstick of memory-bound kernels: by the same clock, in the same minute.
void triad(float* a, const float* b, const float* c, int64_t n) {
#pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < n; ++i) a[i] = b[i] + 3 * c[i];
}

template <class F>
void fill(const Tensor& t, F&& value) {
  dispatch<float, bf16>(t.dtype(), [&]<class T>() {
    T* data = static_cast<T*>(t.data());
    for (int64_t i = 0; i < t.numel(); ++i) data[i] = T(value(i));
  });
}

}  // namespace

Bench::Bench(int threads, double seconds_per_case)
    : threads_(threads),
      seconds_per_case_(seconds_per_case),
      device_(make_cpu_device()),
      arena_(*device_),
      stream_(device_->make_compute_stream()),
      table_(kernels::cpu_kernels()) {
  const PeakFlops f32 = measure_peak_flops(threads, FlopType::f32), b16 = measure_peak_flops(threads, FlopType::bf16);
  peak_f32_ = f32.flops_per_s;
  peak_bf16_ = b16.flops_per_s;
  constexpr int64_t count = int64_t{1} << 24;
  const Tensor a = empty({count}), x = constant({count}, DType::f32, 1), y = constant({count}, DType::f32, 2);
  bandwidth_ = 12.0 * static_cast<double>(count) / seconds([&] {
                 triad(static_cast<float*>(a.data()), static_cast<const float*>(x.data()),
                       static_cast<const float*>(y.data()), count);
               });
  expect_near("triad", at(a, {count - 1}), 7, 0);
  fmt::print("level {}, {} thread(s), clock: {}\n", kernels::cpu_vector_level(), threads,
             threads == 1 ? "processor time" : "wall time");
  fmt::print("peak f32 {:.1f} GFLOP/s ({}), bf16 {:.1f} GFLOP/s ({}), triad {:.1f} GB/s\n\n", peak_f32_ / 1e9,
             f32.instruction, peak_bf16_ / 1e9, b16.instruction, bandwidth_ / 1e9);
}

Tensor Bench::uniform(Shape shape, DType dtype, uint64_t seed) {
  Tensor t = empty(shape, dtype);
  uint64_t state = seed * 0x9E3779B97F4A7C15ull + 1;
  fill(t, [&](int64_t) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<float>(2 * unit_interval(static_cast<uint32_t>(state >> 32)) - 1);
  });
  return t;
}

Tensor Bench::constant(Shape shape, DType dtype, double value) {
  Tensor t = empty(shape, dtype);
  fill(t, [&](int64_t) { return static_cast<float>(value); });
  return t;
}

double Bench::at(const Tensor& t, std::initializer_list<int64_t> index) const {
  int64_t offset = 0;
  int d = 0;
  for (const int64_t i : index) offset += i * t.strides()[d++];
  if (t.dtype() == DType::bf16)
    return static_cast<double>(static_cast<float>(static_cast<const bf16*>(t.data())[offset]));
  return static_cast<double>(static_cast<const float*>(t.data())[offset]);
}

double Bench::seconds(const std::function<void()>& body) const {
  body();  // primitives are built, pages are touched
  double best = HUGE_VAL, total = 0;
  for (int i = 0; i < 3 || (total < seconds_per_case_ && i < 1000); ++i) {
    const double start = now(threads_);
    body();
    const double s = now(threads_) - start;
    best = std::min(best, s);
    total += s;
  }
  return best;
}

void Bench::flops_row(const std::string& name, DType dtype, int64_t flops, const std::function<void()>& body) {
  const double rate = static_cast<double>(flops) / seconds(body);
  fmt::print("{:<52} {:9.1f} GFLOP/s {:6.1f} % of peak\n", name, rate / 1e9,
             100 * rate / (dtype == DType::bf16 ? peak_bf16_ : peak_f32_));
  std::fflush(stdout);
}

void Bench::bytes_row(const std::string& name, int64_t bytes, const std::function<void()>& body) {
  const double rate = static_cast<double>(bytes) / seconds(body);
  fmt::print("{:<52} {:9.1f} GB/s    {:6.1f} % of triad\n", name, rate / 1e9, 100 * rate / bandwidth_);
  std::fflush(stdout);
}

void Bench::expect_near(const std::string& name, double got, double want, double tolerance) const {
  if (std::abs(got - want) <= tolerance * (1 + std::abs(want))) return;
  fail(ErrorKind::internal, fmt::format("{}: computed {}, the f64 reference is {}", name, got, want));
}

}  // namespace trainctl::bench

int main(int argc, char** argv) {
  using namespace trainctl;
  try {
    const std::string_view which = argc > 1 ? argv[1] : "all";
    bench::Bench b(kernels::kernel_threads(), argc > 2 ? std::strtod(argv[2], nullptr) : 0.3);
    if (which == "all" || which == "gemm") bench::bench_gemm(b);
    if (which == "all" || which == "attention") bench::bench_attention(b);
    if (which == "all" || which == "memory") bench::bench_memory_bound(b);
    return 0;
  } catch (const Error& e) {
    fmt::print(stderr, "kernels_bench: {}\n", e.what());
    return exit_code(e.kind());
  }
}
