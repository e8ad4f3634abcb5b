#pragma once

#include "gpu/numerics/dtype.hpp"
#include "gpu/numerics/host_device.hpp"

#include <cstdint>

namespace stagger::gpu {

// Conversions between fp32 and the 16-bit formats, to nearest and ties to even, in integers: the
// same bits on every device. What is not a number becomes 0x7fff, with its sign.

/// Rounds to bf16: 1 sign, 8 exponent and 7 fraction bits, the upper half of an fp32.
[[nodiscard]] STAGGER_HOST_DEVICE constexpr std::uint16_t bf16_bits(float value) {
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<std::uint16_t>(bits >> 16 | 0x7fff);
  // Half a unit, less the smallest part of it unless the result would be odd; a carry out of the
  // fraction goes to the exponent, up to infinity.
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

[[nodiscard]] STAGGER_HOST_DEVICE constexpr float from_bf16(std::uint16_t bits) {
  return __builtin_bit_cast(float, std::uint32_t{bits} << 16);
}

/// Rounds to fp16: 1 sign, 5 exponent and 10 fraction bits. 65,520 and above is infinity.
[[nodiscard]] STAGGER_HOST_DEVICE constexpr std::uint16_t fp16_bits(float value) {
  constexpr std::uint32_t kSmallestNormal = 0x38800000;  // 2^-14
  constexpr std::uint32_t kOverflow = 0x477ff000;        // 65,520
  constexpr std::uint32_t kBias = 0x38000000;            // 127 - 15, as an exponent
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t sign = bits >> 16 & 0x8000;
  const std::uint32_t size = bits & 0x7fffffff;
  std::uint32_t rounded = 0;
  if (size > 0x7f800000) {
    rounded = 0x7fff;
  } else if (size >= kOverflow) {
    rounded = 0x7c00;
  } else if (size >= kSmallestNormal) {
    rounded = (size - kBias + 0xfff + (size >> 13 & 1)) >> 13;
  } else {
    // A unit of 1/2 is 2^-24, that of fp16's subnormals: the addition rounds to it.
    const float shifted = __builtin_bit_cast(float, size) + 0.5F;
    rounded = __builtin_bit_cast(std::uint32_t, shifted) - 0x3f000000;
  }
  return static_cast<std::uint16_t>(sign | rounded);
}

[[nodiscard]] STAGGER_HOST_DEVICE constexpr float from_fp16(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits & 0x8000U} << 16;
  const std::uint32_t size = bits & 0x7fffU;
  if (size >= 0x7c00) return __builtin_bit_cast(float, sign | 0x7f800000 | size << 13);
  // Its bits are those of an fp32 that is 2^112 times smaller.
  const float value = __builtin_bit_cast(float, size << 13) * 0x1p112F;
  return __builtin_bit_cast(float, sign | __builtin_bit_cast(std::uint32_t, value));
}

/// Returns the nearest number that the format has.
[[nodiscard]] STAGGER_HOST_DEVICE constexpr float rounded(float value, Dtype dtype) {
  if (dtype == Dtype::bf16) return from_bf16(bf16_bits(value));
  if (dtype == Dtype::fp16) return from_fp16(fp16_bits(value));
  return value;
}

}  // namespace stagger::gpu
