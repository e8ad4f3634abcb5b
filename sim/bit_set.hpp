#pragma once

#include "core/index.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace stagger::sim {

/// A set of numbers below `size`, whose first member from a number on is found in a few steps: a
/// bit a number, and a bit for each 64 of those that are not all 0.
class BitSet {
 public:
  explicit BitSet(std::size_t size)
      : size_(size), bits_(size / kBits + 1), filled_(bits_.size() / kBits + 1) {}

  [[nodiscard]] std::size_t size() const { return size_; }

  void insert(std::size_t number) {
    bits_[number / kBits] |= bit(number);
    filled_[number / kBits / kBits] |= bit(number / kBits);
  }
  void erase(std::size_t number) {
    std::uint64_t& bits = bits_[number / kBits] &= ~bit(number);
    if (bits == 0) filled_[number / kBits / kBits] &= ~bit(number / kBits);
  }

  /// The first member that is at least `number`, which is below size(); size() if there is none.
  [[nodiscard]] std::size_t first_from(std::size_t number) const {
    std::size_t word = number / kBits;
    if (const std::uint64_t bits = bits_[word] >> number % kBits) {
      return number + at(std::countr_zero(bits));
    }
    ++word;
    std::size_t sixty_four = word / kBits;
    if (sixty_four == filled_.size()) return size_;
    std::uint64_t filled = filled_[sixty_four] & ~std::uint64_t{0} << word % kBits;
    while (filled == 0) {
      if (++sixty_four == filled_.size()) return size_;
      filled = filled_[sixty_four];
    }
    word = sixty_four * kBits + at(std::countr_zero(filled));
    return word * kBits + at(std::countr_zero(bits_[word]));
  }

 private:
  static constexpr std::size_t kBits = 64;
  static std::uint64_t bit(std::size_t number) { return std::uint64_t{1} << number % kBits; }

  std::size_t size_;
  std::vector<std::uint64_t> bits_;
  std::vector<std::uint64_t> filled_;  ///< which of bits_ are not 0
};

}  // namespace stagger::sim
