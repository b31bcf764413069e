// tests/kernels/fixture.cpp
#include "fixture.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/philox.h"
#include "kernels/common/cpu.h"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace trainctl::testing {
namespace {

// Calls f(element offset, row-major index) for each element.
template <class F>
void each(const Tensor& t, F&& f) {
  int64_t index[kMaxDims] = {};
  for (int64_t n = 0; n < t.numel(); ++n) {
    int64_t offset = 0;
    for (int d = 0; d < t.rank(); ++d) offset += index[d] * t.strides()[d];
    f(offset, static_cast<size_t>(n));
    for (int d = t.rank() - 1; d >= 0; --d) {
      if (++index[d] < t.dim(d)) break;
      index[d] = 0;
    }
  }
}

double get(const Tensor& t, int64_t offset) {
  switch (t.dtype()) {
    case DType::f32:
      return static_cast<double>(static_cast<const float*>(t.data())[offset]);
    case DType::bf16:
      return static_cast<double>(static_cast<float>(static_cast<const bf16*>(t.data())[offset]));
    case DType::f64:
      return static_cast<const double*>(t.data())[offset];
    case DType::i32:
      return static_cast<const int32_t*>(t.data())[offset];
    default:
      fail(ErrorKind::internal, "a test reads a dtype it does not know");
  }
}
void put(const Tensor& t, int64_t offset, double v) {
  switch (t.dtype()) {
    case DType::f32:
      static_cast<float*>(t.data())[offset] = static_cast<float>(v);
      break;
    case DType::bf16:
      static_cast<bf16*>(t.data())[offset] = bf16(static_cast<float>(v));
      break;
    case DType::f64:
      static_cast<double*>(t.data())[offset] = v;
      break;
    case DType::i32:
      static_cast<int32_t*>(t.data())[offset] = static_cast<int32_t>(v);
      break;
    default:
      fail(ErrorKind::internal, "a test writes a dtype it does not know");
  }
}

}  // namespace

Tensor Rig::constant(Shape shape, DType dtype, double value) {
  Tensor t = empty(shape, dtype);
  each(t, [&](int64_t offset, size_t) { put(t, offset, value); });
  return t;
}

Tensor Rig::random(Shape shape, DType dtype, uint64_t seed, double scale) {
  Tensor t = empty(shape, dtype);
  each(t, [&](int64_t offset, size_t n) { put(t, offset, scale * philox_normal(seed, 77, n)); });
  return t;
}

Tensor Rig::integers(const std::vector<int32_t>& v) {
  Tensor t = empty({static_cast<int64_t>(v.size())}, DType::i32);
  if (!v.empty()) std::memcpy(t.data(), v.data(), v.size() * sizeof(int32_t));
  return t;
}

Tensor Rig::spread(const Tensor& rows, int64_t stride) {
  const Tensor whole = constant({rows.dim(0), stride}, rows.dtype(), std::nan(""));
  Tensor t = whole.slice(1, 0, rows.dim(1));
  assign(t, values(rows));
  return t;
}

Tensor Rig::copy(const Tensor& from) {
  Tensor t = empty(from.shape(), from.dtype());
  assign(t, values(from));
  return t;
}

Values values(const Tensor& t) {
  Values v(static_cast<size_t>(t.numel()));
  each(t, [&](int64_t offset, size_t n) { v[n] = get(t, offset); });
  return v;
}

void assign(const Tensor& t, const Values& v) {
  ensure(static_cast<int64_t>(v.size()) == t.numel(), "a test assigns values of another size");
  each(t, [&](int64_t offset, size_t n) { put(t, offset, v[n]); });
}

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype() || !a.contiguous() || !b.contiguous()) return false;
  return a.numel() == 0 || std::memcmp(a.data(), b.data(), static_cast<size_t>(a.bytes())) == 0;
}

double error(const Values& got, const Values& want, double floor) {
  if (got.size() != want.size()) return HUGE_VAL;
  double square = 0, worst = 0;
  for (const double w : want) square += w * w;
  const double typical = want.empty() ? 0 : std::sqrt(square / static_cast<double>(want.size()));
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i] == want[i]) continue;  // infinities too
    const double e = std::abs(got[i] - want[i]) / (std::abs(want[i]) + typical + floor);
    if (!(e <= worst)) worst = std::isnan(e) ? HUGE_VAL : e;
  }
  return worst;
}

Values numeric_gradient(const Function& f, const Values& x, const Values& weight) {
  const auto objective = [&](const Values& at) {
    const Values y = f(at);
    double sum = 0;
    for (size_t i = 0; i < y.size(); ++i) sum += weight[i] * y[i];
    return sum;
  };
  Values gradient(x.size()), moved = x;
  for (size_t i = 0; i < x.size(); ++i) {
    const double h = 1e-4 * std::max(1.0, std::abs(x[i]));
    moved[i] = x[i] + h;
    const double up = objective(moved);
    moved[i] = x[i] - h;
    gradient[i] = (up - objective(moved)) / (2 * h);
    moved[i] = x[i];
  }
  return gradient;
}

std::vector<std::string> levels() {
  std::vector<std::string> found = {"portable"};
  if (kernels::cpu_has(kernels::Level::avx2)) found.emplace_back("avx2");
  if (kernels::cpu_has(kernels::Level::avx512)) found.emplace_back("avx512");
  return found;
}

void set_threads([[maybe_unused]] int n) {
#ifdef _OPENMP
  omp_set_num_threads(n);
#endif
}

bool same_for_any_thread_count(const std::function<std::vector<Tensor>()>& body) {
  set_threads(1);
  const std::vector<Tensor> expected = body();
  bool same = true;
  for (const int n : {2, 3}) {
    set_threads(n);
    const std::vector<Tensor> got = body();
    for (size_t i = 0; i < expected.size(); ++i) same = same && same_bits(expected[i], got[i]);
  }
  set_threads(1);
  return same;
}

}  // namespace trainctl::testing
