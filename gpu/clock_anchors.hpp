#pragma once

// An SM's cycle counter as a clock of all SMs. It resolves single cycles, but runs at a rate of its
// own that changes with the clock's frequency, from a start of its own. The global timer is one
// clock for all, but stands still for tens of ns. So every task leaves an anchor, a reading of
// both, and the anchors of an SM make its cycles nanoseconds.

#include "core/table.hpp"
#include "gpu/backward.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace stagger::gpu {

/// A reading of the global timer and, right after it, of the SM's cycle counter; -1: none.
struct ClockAnchor {
  std::int64_t ns = -1;
  std::int64_t cycles = -1;
};

/// What a device's clocks say of a task.
struct TaskClocks {
  TaskTimes cycles;    ///< of its SM, in cycles instead of ns
  ClockAnchor anchor;  ///< of its SM, at any time in the run
};

/// The cycle counter of one SM in ns of the global timer, by straight lines between knots.
///
/// A reading of the timer is earlier than the cycle counter's that follows it: it was rounded down
/// to the timer's step. So all anchors lie below the true line, the best by next to nothing; and a
/// thread that was held up between its two readings lies far below and does no harm. A knot is for
/// 20 us: the lowest line at their middle that has all their anchors below. With ten anchors it is
/// a few ns below the true line. A change of rate by a part p in between is off by up to p * 5 us.
class SmClock {
 public:
  /// Requires at least one anchor. `ns_per_cycle` is for anchors that are too close together to
  /// tell. O(anchors log anchors).
  SmClock(std::vector<ClockAnchor> anchors, double ns_per_cycle);

  /// ns of the global timer; never decreasing. O(log knots).
  [[nodiscard]] std::int64_t ns(std::int64_t cycles) const;

 private:
  struct Knot {
    std::int64_t cycles = 0;
    double ns = 0;  ///< since base_
  };
  [[nodiscard]] Knot knot_of(std::span<const ClockAnchor> anchors) const;
  void add_knots(std::span<const ClockAnchor> anchors);
  void set_outer_rates();

  std::int64_t base_ = 0;  ///< ns of the first anchor
  std::vector<Knot> knots_;
  double rate_before_ = 0;  ///< ns a cycle before the first knot
  double rate_after_ = 0;   ///< and after the last
};

struct AnchoredTimes {
  std::vector<TaskTimes> times;  ///< by slot, as Backward::times
  /// To how many ns times of two SMs compare: what an SM's clock differs by from the nearest of
  /// any four anchors that follow each other, and at least the timer's step. It is more than the
  /// step where a clock changed its rate.
  std::int64_t error_ns = 0;
};

/// Puts a run's stamps on the global timer's time, from the run's first compute phase on. In one
/// SM the order stays that of the cycles. `clocks` is by slot, or empty if none were taken;
/// `ns_per_cycle` a guess, for runs too short to tell. O(tasks log tasks).
[[nodiscard]] AnchoredTimes anchored_times(const Table& table, const std::vector<Sm>& lane_sms,
                                           const std::vector<TaskClocks>& clocks,
                                           double ns_per_cycle);

}  // namespace stagger::gpu
