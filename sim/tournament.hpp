#pragma once

#include "core/index.hpp"
#include "core/timing.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace stagger::sim {

/// Which of some SMs is due first, at equal times the first of them: a tree whose nodes name the
/// winner of the two below. Source: tree selection, Knuth, TAOCP 5.2.3.
///
/// Who comes after the first does not wait for when the first is due again, which most often is
/// after all of them: a processor that works ahead is at the next SM before this one is done.
class Tournament {
 public:
  static constexpr Ticks kNever = Ticks{1} << 62;

  /// For SMs 0 … sms-1, none of which is due.
  explicit Tournament(std::int32_t sms)
      : leaves_(std::bit_ceil(at(sms))), due_(leaves_, kNever), winners_(2 * leaves_) {
    for (std::size_t leaf = 0; leaf < leaves_; ++leaf)
      winners_[leaves_ + leaf] = static_cast<std::int32_t>(leaf);
    for (std::size_t node = leaves_; node-- > 1;)
      winners_[node] = winners_[2 * node];
  }

  [[nodiscard]] Sm first() const { return {winners_[1]}; }
  /// When the first is due; kNever if none is.
  [[nodiscard]] Ticks time() const { return due_[at(first())]; }

  /// The first is not due until it is said again when. No branch: each node above it has another
  /// winner, and which one cannot be predicted.
  void drop_first() {
    std::int32_t winner = winners_[1];
    Ticks time = kNever;
    due_[at(winner)] = kNever;
    for (std::size_t node = leaves_ + at(winner); node > 1; node /= 2) {
      const std::int32_t other = winners_[node ^ 1];
      const Ticks others = due_[at(other)];
      winner ^= (winner ^ other) & -static_cast<std::int32_t>(beats(others, node, time));
      time = std::min(time, others);
      winners_[node / 2] = winner;
    }
  }

  /// The SM is due at a time no later than when it was: the nodes that another one has won against
  /// it stay as they are.
  void hasten(Sm sm, Ticks time) {
    due_[at(sm)] = time;
    for (std::size_t node = leaves_ + at(sm); node > 1; node /= 2) {
      if (beats(due_[at(winners_[node ^ 1])], node, time)) return;
      winners_[node / 2] = sm.value;
    }
  }

 private:
  /// Whether the winner of the node beside one wins against it: at equal times that of the left
  /// one does, whose SMs come first.
  static bool beats(Ticks others, std::size_t node, Ticks time) {
    return others < time + static_cast<Ticks>(node & 1);
  }

  std::size_t leaves_;
  std::vector<Ticks> due_;             ///< by SM
  std::vector<std::int32_t> winners_;  ///< node i is above 2i and 2i + 1, SM s is node leaves_ + s
};

}  // namespace stagger::sim
