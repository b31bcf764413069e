// lib/comm/rank_order_reduce.cpp -- blocks of elements, ranks from left to right inside a block.
#include "comm/rank_order_reduce.h"

#include <algorithm>
#include <type_traits>

namespace trainctl {
namespace {

constexpr int64_t kBlock = 512;  // accumulators stay in the first-level cache

template <class T>
struct Accumulator {
  using Type = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;
};
template <>
struct Accumulator<bf16> {
  using Type = float;
};

template <class T>
void reduce_block(Reduce reduce, std::span<const void* const> parts, T* out, int64_t begin, int64_t count) {
  if (reduce == Reduce::sum) {
    using A = typename Accumulator<T>::Type;  // unsigned: integer sums wrap instead of being undefined
    A sum[kBlock];
    const T* first = static_cast<const T*>(parts[0]) + begin;
    for (int64_t i = 0; i < count; ++i) sum[i] = static_cast<A>(first[i]);
    for (size_t r = 1; r < parts.size(); ++r) {
      const T* part = static_cast<const T*>(parts[r]) + begin;
      for (int64_t i = 0; i < count; ++i) sum[i] = static_cast<A>(sum[i] + static_cast<A>(part[i]));
    }
    for (int64_t i = 0; i < count; ++i) out[begin + i] = static_cast<T>(sum[i]);
  } else {
    using A = std::conditional_t<std::is_same_v<T, bf16>, float, T>;
    A best[kBlock];
    const T* first = static_cast<const T*>(parts[0]) + begin;
    for (int64_t i = 0; i < count; ++i) best[i] = static_cast<A>(first[i]);
    for (size_t r = 1; r < parts.size(); ++r) {
      const T* part = static_cast<const T*>(parts[r]) + begin;
      for (int64_t i = 0; i < count; ++i) {
        const A x = static_cast<A>(part[i]);
        if constexpr (std::is_floating_point_v<A>)
          best[i] = x > best[i] || x != x ? x : best[i];  // a NaN, once there, loses every comparison and stays
        else
          best[i] = std::max(best[i], x);
      }
    }
    for (int64_t i = 0; i < count; ++i) out[begin + i] = static_cast<T>(best[i]);
  }
}

}  // namespace

void reduce_in_rank_order(DType dtype, Reduce reduce, std::span<const void* const> parts, void* out, int64_t elements) {
  dispatch<float, bf16, double, int32_t, int64_t, uint8_t>(dtype, [&]<class T> {
    for (int64_t begin = 0; begin < elements; begin += kBlock)
      reduce_block(reduce, parts, static_cast<T*>(out), begin, std::min(kBlock, elements - begin));
  });
}

}  // namespace trainctl
