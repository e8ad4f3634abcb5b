#pragma once

#include "core/index.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace stagger {

/// Who waits for which value of which lock: SMs or lanes. A hash table as large as there are who
/// can wait at once, where an array by value would be as large as there are tasks: nearly every
/// access to that misses the cache.
template <class Who>
class Waiting {
 public:
  static constexpr Who kNobody{-1};

  /// For 0 … most-1, each of whom waits for one value at a time.
  explicit Waiting(std::int32_t most)
      : shift_(64 - static_cast<int>(std::bit_width(std::max(at(most), at(1))))),
        first_(std::size_t{1} << (64 - shift_), kNobody),
        waits_(most) {}

  /// Requires 0 <= lock < 2^32, 0 <= value.
  void add(Who who, std::int64_t lock, std::int32_t value) {
    const std::uint64_t turn = turn_of(lock, value);
    Who& first = first_[bucket(turn)];
    waits_[who] = {.turn = turn, .next = first};
    first = who;
  }
  /// Whoever waits for a value, who waits no more then; of several the last to come. kNobody if
  /// nobody does.
  Who take(std::int64_t lock, std::int32_t value) {
    const std::uint64_t turn = turn_of(lock, value);
    Who* who = &first_[bucket(turn)];
    while (*who != kNobody && waits_[*who].turn != turn)
      who = &waits_[*who].next;
    return *who == kNobody ? kNobody : std::exchange(*who, waits_[*who].next);
  }

 private:
  struct Wait {
    std::uint64_t turn = 0;
    Who next = kNobody;  ///< in the same bucket
  };

  [[nodiscard]] static std::uint64_t turn_of(std::int64_t lock, std::int32_t value) {
    return static_cast<std::uint64_t>(lock) << 31 | static_cast<std::uint64_t>(value);
  }
  /// Fibonacci hashing (Knuth, TAOCP 6.4): regular distances between turns do not collide.
  [[nodiscard]] std::size_t bucket(std::uint64_t turn) const {
    return (turn * 0x9e3779b97f4a7c15) >> shift_;
  }

  int shift_;
  std::vector<Who> first_;  ///< by bucket
  IndexVector<Who, Wait> waits_;
};

}  // namespace stagger
