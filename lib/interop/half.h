// lib/interop/half.h -- IEEE 754 binary16 (f16): a format of other programs only; nothing computes in it here.
#pragma once

#include <bit>
#include <cstdint>

namespace trainctl {

// Exact: every f16, subnormal ones too, is an f32. Infinities stay, a NaN keeps its sign and the bits of its payload.
inline float f32_of_half(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16, mantissa = h & 0x3ffu;
  const uint32_t exponent = (h >> 10) & 0x1fu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;  // exact: a small integer times a power of two
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

// Rounds to nearest even. Magnitudes from 65520 on become infinite; a NaN stays one.
inline uint16_t half_of_f32(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const auto with_sign = [sign](uint32_t rest) { return static_cast<uint16_t>(sign | rest); };
  if (magnitude > 0x7f800000u) return with_sign(0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u) return with_sign(0x7c00u);  // 65520: the middle between the largest f16 and 2^16
  if (magnitude < 0x38800000u) {                            // below 2^-14: subnormal, in units of 2^-24
    // Adding 0.5 puts the unit 2^-24 into the last bit of the sum's mantissa: the addition rounds to nearest even.
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;
    return with_sign(std::bit_cast<uint32_t>(sum) - 0x3f000000u);
  }
  const uint32_t shifted = magnitude - (112u << 23);
  return with_sign((shifted + 0xfffu + ((shifted >> 13) & 1u)) >> 13);
}

}  // namespace trainctl
