#pragma once

#include "core/table.hpp"
#include "core/timing.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace stagger::sim {

/// How busy a device is, and what is slower for it: of its S SMs those reduce that had a turn to
/// reduce into dQ within the last Timing::cycle(), n of them, at most S.
class Load {
 public:
  /// Requires a memory.
  Load(const Timing& timing, const Problem& problem)
      : congestion_(timing.memory->congestion),
        dip_(timing.memory->dip_loss == 0 ? 0 : timing.memory->dip),
        lost_(timing.memory->dip_loss),
        cycle_(timing.cycle()),
        turns_(congestion_ + lost_ == 0 ? 0 : at(resident_lanes(problem, timing.residency))) {}

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

  /// What a hand-over takes longer that begins with the reduction added last, as L2, which it goes
  /// through, answers later: floor(congestion * n / S).
  [[nodiscard]] Ticks held_up() const {
    if (turns_.empty()) return 0;
    return congestion_ * reducing() / sms();
  }

  /// Whether the clock dips at a time if enough SMs reduce.
  [[nodiscard]] bool dips(Ticks time) const { return time < dip_; }

  /// What a compute phase of `ticks` takes longer that starts now, while the clock dips: nothing
  /// while no more than half of the SMs reduce; floor(s * (2 n - S) / S), where s is floor(ticks *
  /// dip_loss / (dip - dip_loss)), what it takes longer while all of them do.
  [[nodiscard]] Ticks slowed_by(Ticks ticks) const {
    __extension__ using Ticks128 = __int128;
    const auto most = static_cast<Ticks>(Ticks128{ticks} * lost_ / (dip_ - lost_));
    return most * std::max<Ticks>(0, 2 * reducing() - sms()) / sms();
  }

 private:
  [[nodiscard]] Ticks reducing() const { return static_cast<Ticks>(count_); }
  [[nodiscard]] Ticks sms() const { return std::ssize(turns_); }
  [[nodiscard]] std::size_t after(std::size_t place) const {
    return place + 1 == turns_.size() ? 0 : place + 1;
  }
  void forget() {
    first_ = after(first_);
    --count_;
  }

  Ticks congestion_;
  Ticks dip_;
  Ticks lost_;
  Ticks cycle_;
  std::vector<Ticks> turns_;  ///< a ring of the last ones; empty: nothing is slower
  std::size_t first_ = 0;     ///< the oldest that counts
  std::size_t next_ = 0;      ///< where the next one goes
  std::size_t count_ = 0;
};

}  // namespace stagger::sim
