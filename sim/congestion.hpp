#pragma once

#include "core/table.hpp"
#include "core/timing.hpp"

#include <cstdint>
#include <vector>

namespace stagger::sim {

/// What hand-overs take longer the more SMs reduce: L2, which they go through, answers later. With
/// n reductions into dQ whose turn came within the last Timing::cycle(), at most as many as there
/// are SMs S, that is floor(congestion * n / S).
class Congestion {
 public:
  /// Requires a memory.
  Congestion(const Timing& timing, const Problem& problem)
      : most_(timing.memory->congestion),
        cycle_(timing.cycle()),
        turns_(most_ == 0 ? 0 : at(resident_lanes(problem, timing.residency))) {}

  /// A reduction's turn comes, not before any that came. O(1).
  void add(Ticks turn) {
    if (turns_.empty()) return;
    while (count_ > 0 && turns_[first_] <= turn - cycle_)
      forget();
    if (count_ == turns_.size()) forget();
    turns_[next_] = turn;
    next_ = after(next_);
    ++count_;
  }

  /// What a hand-over takes longer that begins with the reduction added last.
  [[nodiscard]] Ticks delay() const {
    if (turns_.empty()) return 0;
    return most_ * static_cast<Ticks>(count_) / std::ssize(turns_);
  }

 private:
  [[nodiscard]] std::size_t after(std::size_t place) const {
    return place + 1 == turns_.size() ? 0 : place + 1;
  }
  void forget() {
    first_ = after(first_);
    --count_;
  }

  Ticks most_;
  Ticks cycle_;
  std::vector<Ticks> turns_;  ///< a ring of the last ones
  std::size_t first_ = 0;     ///< the oldest that counts
  std::size_t next_ = 0;      ///< where the next one goes
  std::size_t count_ = 0;
};

}  // namespace stagger::sim
