// lib/tensor/dtype.h -- element types, and the dispatch from a DType value to a C++ type.
#pragma once

#include <fmt/format.h>

#include <bit>
#include <cstdint>
#include <string_view>

#include "base/error.h"

namespace trainctl {

enum class DType : uint8_t { f32, bf16, f64, i32, i64, u8 };
std::string_view name(DType dtype);         // "f32"
DType dtype_from_name(std::string_view n);  // throws Error{config}
constexpr int64_t size_of(DType d) {
  switch (d) {
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::bf16:
      return 2;
    case DType::u8:
      return 1;
  }
  return 0;
}

// bfloat16: the upper half of an f32. Stores round to nearest even; NaN stays NaN.
struct bf16 {
  uint16_t bits = 0;
  bf16() = default;
  explicit bf16(float x) {
    const uint32_t u = std::bit_cast<uint32_t>(x);
    if ((u & 0x7fffffffu) > 0x7f800000u)
      bits = static_cast<uint16_t>((u >> 16) | 0x40u);
    else
      bits = static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

template <class T>
inline constexpr DType dtype_of = [] {
  static_assert(sizeof(T) == 0, "no DType for this type");
  return DType::u8;
}();
template <>
inline constexpr DType dtype_of<float> = DType::f32;
template <>
inline constexpr DType dtype_of<bf16> = DType::bf16;
template <>
inline constexpr DType dtype_of<double> = DType::f64;
template <>
inline constexpr DType dtype_of<int32_t> = DType::i32;
template <>
inline constexpr DType dtype_of<int64_t> = DType::i64;
template <>
inline constexpr DType dtype_of<uint8_t> = DType::u8;

// dispatch<float, bf16>(d, [&]<class T> { ... }); throws Error{internal} when `d` is not in the list.
template <class... Ts, class F>
void dispatch(DType d, F&& f) {
  const bool ran = ((d == dtype_of<Ts> ? (f.template operator()<Ts>(), true) : false) || ...);
  if (!ran) fail(ErrorKind::internal, fmt::format("dtype {} is not in this kernel's list", name(d)));
}

}  // namespace trainctl
