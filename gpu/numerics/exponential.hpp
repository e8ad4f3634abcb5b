#pragma once

#include "gpu/numerics/host_device.hpp"

#include <cstdint>

namespace stagger::gpu {

/// Returns exp(x) for x up to 80, -infinity included, with the same bits on every device, where
/// each library's own exp rounds its own way.
///
/// x = n ln 2 + r with |r| <= ln 2 / 2, and exp(x) = 2^n exp(r) by eleven terms of its series, in
/// additions and multiplications of doubles that must not be contracted. Rounded once, to float:
/// within 0.501 units in the last place.
[[nodiscard]] STAGGER_HOST_DEVICE inline float exponential(float x) {
  constexpr double kLog2e = 1.4426950408889634;
  constexpr double kLn2 = 0.6931471805599453;
  constexpr double kToInteger = 0x1.8p52;  // its sum with a small number has that number's integer
  constexpr double kSmallest = -150;       // exp of it is less than half of float's smallest
  const double clamped = x < kSmallest ? kSmallest : double{x};
  const double shifted = clamped * kLog2e + kToInteger;
  const double n = shifted - kToInteger;
  const double r = clamped - n * kLn2;
  double sum = 1.0 / 3628800;
  constexpr double kInverseFactorials[] = {1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720,
                                           1.0 / 120,    1.0 / 24,    1.0 / 6,    1.0 / 2,
                                           1.0,          1.0};
  for (const double term : kInverseFactorials)
    sum = sum * r + term;
  const auto power = static_cast<std::uint64_t>(static_cast<std::int64_t>(static_cast<std::int32_t>(
                                                    __builtin_bit_cast(std::uint64_t, shifted))) +
                                                1023)
                     << 52;
  return static_cast<float>(sum * __builtin_bit_cast(double, power));
}

}  // namespace stagger::gpu
