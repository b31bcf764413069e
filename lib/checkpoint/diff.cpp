// lib/checkpoint/diff.cpp -- comparing the logical content of two checkpoints.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "base/error.h"
#include "checkpoint/boxes.h"
#include "checkpoint/verify.h"

namespace trainctl {
namespace {

template <class T>
double as_number(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  if constexpr (std::is_same_v<T, bf16>)
    return static_cast<double>(static_cast<float>(value));
  else
    return static_cast<double>(value);
}

void compare_values(const std::vector<char>& a, const std::vector<char>& b, DType dtype, TensorDifference& d) {
  dispatch<float, bf16, double, int32_t, int64_t, uint8_t>(dtype, [&]<class T> {
    bool finite = true;
    double largest = 0;
    for (size_t at = 0; at < a.size(); at += sizeof(T)) {
      if (std::memcmp(a.data() + at, b.data() + at, sizeof(T)) == 0) continue;
      ++d.elements;
      const double gap = std::abs(as_number<T>(a.data() + at) - as_number<T>(b.data() + at));
      finite = finite && std::isfinite(gap);
      largest = std::max(largest, gap);
    }
    if (finite) d.max_abs = largest;
  });
}

template <class T>
void compare_scalar(std::vector<std::string>& out, std::string_view name, const T& a, const T& b) {
  if (a != b && !(a != a && b != b)) out.push_back(fmt::format("{}: {} against {}", name, a, b));
}

}  // namespace

CheckpointDifference diff_checkpoints(const std::filesystem::path& a, const std::filesystem::path& b,
                                      const Progress& progress) {
  CheckpointReader left(a), right(b);
  CheckpointDifference result;
  const ScalarState &s = left.manifest().scalars, &t = right.manifest().scalars;
  compare_scalar(result.scalars, "kind", left.manifest().kind, right.manifest().kind);
  compare_scalar(result.scalars, "step", s.step, t.step);
  compare_scalar(result.scalars, "consumed_samples", s.consumed_samples, t.consumed_samples);
  compare_scalar(result.scalars, "consumed_tokens", s.consumed_tokens, t.consumed_tokens);
  compare_scalar(result.scalars, "last_loss", s.last_loss, t.last_loss);
  compare_scalar(result.scalars, "last_grad_norm", s.last_grad_norm, t.last_grad_norm);
  compare_scalar(result.scalars, "non_finite_count", s.non_finite_count, t.non_finite_count);
  compare_scalar(result.scalars, "seed", s.seed, t.seed);
  compare_scalar(result.scalars, "data_fingerprint", s.data_fingerprint, t.data_fingerprint);

  int64_t total = 0, done = 0;
  for (const TensorRecord& x : left.manifest().tensors) total += x.shape.numel() * size_of(x.dtype);
  std::vector<char> x_bytes, y_bytes;
  for (const TensorRecord& x : left.manifest().tensors) {
    TensorDifference d{x.name, x.role, "", 0, std::nullopt};
    const TensorRecord* y = right.find(x.name, x.role);
    if (!y) {
      d.what = "only in the first";
    } else if (x.shape != y->shape) {
      d.what = fmt::format("shape {} against {}", to_string(x.shape), to_string(y->shape));
    } else if (x.dtype != y->dtype) {
      d.what = fmt::format("{} against {}", name(x.dtype), name(y->dtype));
    } else {
      const auto bytes = static_cast<size_t>(x.shape.numel() * size_of(x.dtype));
      x_bytes.resize(bytes);
      y_bytes.resize(bytes);
      left.read(x, whole(x.shape), x.dtype, x_bytes.data());
      right.read(*y, whole(x.shape), x.dtype, y_bytes.data());
      ++result.compared;
      if (x_bytes != y_bytes) {
        ++result.differing;
        d.what = "values differ";
        compare_values(x_bytes, y_bytes, x.dtype, d);
      }
    }
    done += x.shape.numel() * size_of(x.dtype);
    if (progress) progress(done, total);
    if (!d.what.empty()) result.tensors.push_back(std::move(d));
  }
  for (const TensorRecord& y : right.manifest().tensors)
    if (!left.find(y.name, y.role)) result.tensors.push_back({y.name, y.role, "only in the second", 0, std::nullopt});
  return result;
}

}  // namespace trainctl
