// tests/kernels/fixture.h -- what kernel tests share: a device, random tensors, f64 copies, errors, finite differences.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/arena.h"
#include "kernels/table.h"
#include "tensor/tensor.h"

namespace trainctl::testing {

using Values = std::vector<double>;  // a tensor's elements in row-major order

class Rig {
 public:
  Rig() : device_(make_cpu_device()), arena_(*device_), stream_(device_->make_compute_stream()) {}
  Stream& stream() { return *stream_; }

  Tensor empty(Shape shape, DType dtype = DType::f32) { return {arena_, shape, dtype, MemoryCategory::other}; }
  Tensor constant(Shape shape, DType dtype, double value);
  // Standard normal values times `scale`, a function of (seed, index), rounded to `dtype`.
  Tensor random(Shape shape, DType dtype, uint64_t seed, double scale = 1.0);
  Tensor integers(const std::vector<int32_t>& values);  // i32 [n]
  // The same elements with rows `stride` elements apart, the gaps filled with NaN.
  Tensor spread(const Tensor& rows, int64_t stride);
  Tensor copy(const Tensor& from);  // contiguous

 private:
  std::unique_ptr<Device> device_;
  Arena arena_;
  std::unique_ptr<Stream> stream_;
};

Values values(const Tensor& t);
void assign(const Tensor& t, const Values& v);
bool same_bits(const Tensor& a, const Tensor& b);

// max |got - want| / (|want| + rms(want) + floor): relative where values are large, against the typical value where
// small; `floor` says from which size on differences matter at all.
double error(const Values& got, const Values& want, double floor = 1e-30);
inline double error(const Tensor& got, const Values& want, double floor = 1e-30) {
  return error(values(got), want, floor);
}

// The gradient of sum(weight * f(x)) by central differences in f64.
using Function = std::function<Values(const Values&)>;
Values numeric_gradient(const Function& f, const Values& x, const Values& weight);

std::vector<std::string> levels();  // vector levels this machine has
void set_threads(int n);            // of OpenMP; nothing without it
// Runs `body` with 1, 2 and 3 threads; true when its tensors have the same bits each time.
bool same_for_any_thread_count(const std::function<std::vector<Tensor>()>& body);

inline double tolerance(DType d, double f32 = 2e-6) { return d == DType::bf16 ? 8e-3 : f32; }
constexpr DType kStorage[] = {DType::f32, DType::bf16};

}  // namespace trainctl::testing
