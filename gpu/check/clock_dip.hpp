#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace stagger::gpu {

struct ClockReading;

/// What the SMs of a run lost at its begin, as their clock was lower than later. A GPU whose SMs
/// all compute at once draws so much more from one moment to the next that its clock dips, an
/// H200's for some 0.15 ms.
struct ClockDip {
  std::int64_t ns = 0;       ///< how long it took, had it been equally deep all the time
  std::int64_t lost_ns = 0;  ///< what an SM lost in the mean, >= 0
  bool known = false;        ///< whether the run was long enough to tell

  friend bool operator==(const ClockDip&, const ClockDip&) = default;
};

/// Returns how a run's clock dipped, by readings of each of its SMs, ascending: against the clock
/// from 250 to 650 us on, of which 100 us are needed. O(readings).
[[nodiscard]] ClockDip clock_dip(const std::vector<std::span<const ClockReading>>& sms);

}  // namespace stagger::gpu
