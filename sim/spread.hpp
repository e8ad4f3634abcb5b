#pragma once

#include "core/timing.hpp"

#include <bit>
#include <cstdint>

namespace stagger::sim {

/// What hand-overs take longer by chance: on a device no two take as long, and a table whose SMs
/// wait for each other in step pays for the longest. Drawn for each place and rank, so that a
/// hand-over is as long in every play, whatever came before it.
///
/// A draw d of 32 bits, from splitmix64 of the rank plus 2^24 places plus 2^58 times the sequence,
/// stands for a share of u = (d | 1) / 2^32 hand-overs that take longer. It is 2/3 of the spread
/// for each halving from 1 to u, in proportion between two of them: in the mean the spread, with
/// quartiles at one and four thirds of it, so that they are a spread apart, as of an exponential
/// distribution roughly. Source of splitmix64: Steele, Lea, Flood 2014, Fast splittable
/// pseudorandom number generators.
class Spread {
 public:
  /// Requires a mean of 0 to 2^55 ticks, and a sequence below kMemoryDraws.
  explicit Spread(Ticks mean, std::int64_t sequence = 0)
      : mean_(mean), sequence_(static_cast<std::uint64_t>(sequence) << 58U) {}

  /// What the hand-over of a place to a rank takes longer. O(1).
  [[nodiscard]] Ticks delay(std::int64_t place, std::int32_t rank) const {
    if (mean_ == 0) return 0;
    const std::uint32_t draw =
        bits(sequence_ + static_cast<std::uint64_t>(place << 24) + at(rank)) | 1U;
    const int halvings = std::countl_zero(draw);
    // Of the next halving what is done, in 2^-16.
    const std::uint32_t left = (draw << halvings) >> 15U;
    const std::int64_t done = (std::int64_t{halvings} << 16) + ((1 << 17) - std::int64_t{left});
    return static_cast<Ticks>(Wide{mean_} * 2 * done / (3 << 16));
  }

 private:
  __extension__ using Wide = __int128;

  static std::uint32_t bits(std::uint64_t state) {
    state += 0x9e3779b97f4a7c15;
    state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9;
    state = (state ^ (state >> 27)) * 0x94d049bb133111eb;
    return static_cast<std::uint32_t>((state ^ (state >> 31)) >> 32);
  }

  Ticks mean_;
  std::uint64_t sequence_;
};

}  // namespace stagger::sim
