#pragma once

#include "core/error.hpp"

#include <cstdint>

namespace stagger {

/// The quotient rounded up, without the sum that could overflow. Requires dividend >= 0,
/// divisor >= 1.
[[nodiscard]] constexpr std::int64_t divide_up(std::int64_t dividend, std::int64_t divisor) {
  return dividend / divisor + (dividend % divisor != 0 ? 1 : 0);
}

/// An integer computed from numbers that come from outside: a sum, difference or product that
/// leaves 64 bits is known as such from then on, whatever is computed with it.
///
///     if (!(Checked(tasks) * ticks + latency).within(kMost)) throw Error(…);
class Checked {
 public:
  constexpr Checked(std::int64_t value) : value_(value) {}

  friend constexpr Checked operator+(Checked left, Checked right) {
    Checked sum(0);
    sum.left_ = __builtin_add_overflow(left.value_, right.value_, &sum.value_);
    return sum.after(left, right);
  }
  friend constexpr Checked operator-(Checked left, Checked right) {
    Checked difference(0);
    difference.left_ = __builtin_sub_overflow(left.value_, right.value_, &difference.value_);
    return difference.after(left, right);
  }
  friend constexpr Checked operator*(Checked left, Checked right) {
    Checked product(0);
    product.left_ = __builtin_mul_overflow(left.value_, right.value_, &product.value_);
    return product.after(left, right);
  }

  /// Whether it never left 64 bits and is at most `most`.
  [[nodiscard]] constexpr bool within(std::int64_t most) const { return !left_ && value_ <= most; }

  /// Requires that it never left 64 bits.
  [[nodiscard]] constexpr std::int64_t value() const {
    STAGGER_EXPECTS(!left_);
    return value_;
  }

 private:
  [[nodiscard]] constexpr Checked after(Checked left, Checked right) const {
    Checked result = *this;
    result.left_ = left_ || left.left_ || right.left_;
    return result;
  }

  std::int64_t value_;
  bool left_ = false;
};

}  // namespace stagger
