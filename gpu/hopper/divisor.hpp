#pragma once

#include "gpu/numerics/host_device.hpp"

#include <cstdint>

namespace stagger::gpu::hopper {

/// A positive number that others are divided by: by a multiplication and a shift, as the load warp
/// has neither time nor registers for a division.
///
/// With 2^(s-1) < d <= 2^s and m = ceil(2^(31+s) / d), n m / 2^(31+s) exceeds n / d by less than
/// n / 2^(31+s) <= 1 / d for n < 2^31, so that both have the same whole part.
class Divisor {
 public:
  constexpr Divisor() = default;
  explicit constexpr Divisor(std::int32_t value) : value_(value) {
    while ((std::int64_t{1} << shift_) < value)
      ++shift_;
    const std::uint64_t power = std::uint64_t{1} << (31 + shift_);
    const auto divisor = static_cast<std::uint64_t>(value);
    multiplier_ = static_cast<std::uint32_t>((power + divisor - 1) / divisor);
  }

  [[nodiscard]] STAGGER_HOST_DEVICE constexpr std::int32_t value() const { return value_; }

  /// The whole part of n / value, for 0 <= n < 2^31.
  [[nodiscard]] STAGGER_HOST_DEVICE constexpr std::int32_t quotient(std::int32_t n) const {
    const std::uint64_t product = std::uint64_t{static_cast<std::uint32_t>(n) << 1} * multiplier_;
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(product >> 32) >> shift_);
  }

 private:
  std::int32_t value_ = 1;
  std::uint32_t multiplier_ = std::uint32_t{1} << 31;
  std::int32_t shift_ = 0;
};

}  // namespace stagger::gpu::hopper
