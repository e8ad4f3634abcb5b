#pragma once

// The time of a run in ns of the global timer, finer than that timer's steps. An SM's cycle counter
// resolves single cycles, but runs at a rate of its own that changes with the clock's frequency,
// from a start of its own. The global timer is one clock for all, but stands still for tens of ns.
// So every stamp is a reading of both.

#include "core/table.hpp"
#include "gpu/check/backward.hpp"
#include "gpu/check/clock_dip.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace stagger::gpu {

/// Both clocks, read one right after the other; -1: not read.
struct ClockReading {
  std::int64_t ns = -1;      ///< of the global timer
  std::int64_t cycles = -1;  ///< of the SM's counter
};

/// What a device's clocks say of a task, as TaskTimes.
struct TaskClocks {
  ClockReading compute_start;
  ClockReading compute_end;
  ClockReading turn;
  ClockReading reduce_end;
};

/// The cycle counter of one SM in ns of the global timer: straight lines through the means of its
/// readings in every 20 us. A mean of n readings is off by a third of a step over sqrt(n), if the
/// rate has not changed meanwhile.
class SmClock {
 public:
  /// Requires at least one reading, ascending. `step` is the timer's, `ns_per_cycle` for readings
  /// that are too close together to tell.
  SmClock(std::span<const ClockReading> readings, std::int64_t step, double ns_per_cycle);

  /// Returns ns of the global timer when a reading was made: by the line, but never outside of the
  /// step that the timer showed, whatever the clock's frequency did. O(log knots).
  [[nodiscard]] std::int64_t ns(const ClockReading& reading) const;

 private:
  struct Knot {
    double cycles = 0;  ///< since start_
    double ns = 0;
  };
  [[nodiscard]] double on_line(double cycles) const;

  ClockReading start_;
  std::int64_t step_;
  double rate_;  ///< ns a cycle where there are no two knots
  std::vector<Knot> knots_;
};

struct AnchoredTimes {
  std::vector<TaskTimes> times;  ///< by slot, as Backward::times
  std::int64_t error_ns = 0;     ///< times of two SMs compare to this: the timer's step
  std::int64_t start_ns = 0;     ///< of the run, by the timer
  ClockDip dip = {};
};

/// Puts a run's stamps on the global timer's time, from the run's first compute phase on. The
/// stamps of one thread stay in their order. `clocks` is by slot, or empty if none were taken;
/// `ns_per_cycle` a guess, for runs too short to tell. O(tasks log tasks).
[[nodiscard]] AnchoredTimes anchored_times(const Table& table, const std::vector<Sm>& lane_sms,
                                           const std::vector<TaskClocks>& clocks,
                                           double ns_per_cycle);

}  // namespace stagger::gpu
