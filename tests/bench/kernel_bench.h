// tests/bench/kernel_bench.h -- the harness of kernels_bench: data, timing, verified results, rows of ratios.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "device/arena.h"
#include "kernels/table.h"
#include "tensor/tensor.h"

namespace trainctl::bench {

class Bench {
 public:
  // Measures this machine's peaks first: everything printed later is a share of them.
  Bench(int threads, double seconds_per_case);

  Tensor empty(Shape shape, DType dtype = DType::f32) { return {arena_, shape, dtype, MemoryCategory::other}; }
  Tensor uniform(Shape shape, DType dtype, uint64_t seed);  // in (-1, 1)
  Tensor constant(Shape shape, DType dtype, double value);
  double at(const Tensor& t, std::initializer_list<int64_t> index) const;

  const kernels::KernelTable& table() const { return table_; }
  Stream& stream() { return *stream_; }
  template <class Args>
  void run(const Args& args) {
    table_.get<Args>()(args, *stream_);
  }

  // Times `body` and prints flops per second as a share of the peak of `dtype`.
  void flops_row(const std::string& name, DType dtype, int64_t flops, const std::function<void()>& body);
  // Times `body` and prints bytes per second as a share of the triad's bandwidth.
  void bytes_row(const std::string& name, int64_t bytes, const std::function<void()>& body);
  // Ends the program when a result is wrong: a fast wrong answer is a failure.
  void expect_near(const std::string& name, double got, double want, double tolerance) const;

 private:
  double seconds(const std::function<void()>& body) const;  // of one call: the best of several

  int threads_;
  double seconds_per_case_, peak_f32_, peak_bf16_, bandwidth_;
  std::unique_ptr<Device> device_;
  Arena arena_;
  std::unique_ptr<Stream> stream_;
  kernels::KernelTable table_;
};

void bench_gemm(Bench& bench);
void bench_attention(Bench& bench);
void bench_memory_bound(Bench& bench);

}  // namespace trainctl::bench
