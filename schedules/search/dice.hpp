#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace stagger::search {

/// Seeded random numbers that are the same on every platform, which those of the standard library's
/// distributions are not.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : generator_(seed) {}

  /// One of 0 … below-1. Requires below >= 1.
  std::size_t roll(std::size_t below) {
    return static_cast<std::size_t>(generator_() % static_cast<std::uint64_t>(below));
  }

  template <class Item>
  void shuffle(std::vector<Item>& items) {
    for (std::size_t left = items.size(); left > 1; --left)
      std::swap(items[left - 1], items[roll(left)]);
  }

 private:
  std::mt19937_64 generator_;
};

}  // namespace stagger::search
