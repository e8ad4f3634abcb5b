#pragma once

#include "core/timeline.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace stagger::sim {

/// From `time` on, until the next step, so many dQ tiles have been begun and are not finished.
struct InFlight {
  Ticks time = 0;
  std::int64_t tiles = 0;

  friend bool operator==(const InFlight&, const InFlight&) = default;
};

/// Returns how many dQ tiles are in flight over a timeline, by time; the last step has none. A tile
/// is from the start of its first reduction to the end of its last one that the timeline has.
/// O(intervals log intervals).
[[nodiscard]] std::vector<InFlight> dq_in_flight(const Timeline& timeline);

/// What of dq_in_flight() a picture shows, in bytes.
struct InFlightCurve {
  std::vector<std::int64_t>
      columns;  ///< of equal parts of the makespan: the most at any time in it
  std::int64_t most = 0;
  std::int64_t l2 = 0;
  /// `dQ in flight: at most 134.2 MB; L2 51.7 MB`.
  std::string words;

  [[nodiscard]] bool empty() const { return columns.empty(); }
  /// Whether the size of L2 is within the picture.
  [[nodiscard]] bool shows_l2() const { return !empty() && l2 <= most; }
};

/// Returns the curve in so many columns; an empty one if the timeline says nothing of dQ tiles'
/// bytes or has no reduction that takes time. Requires a drawable timeline and `columns` > 0.
[[nodiscard]] InFlightCurve in_flight_curve(const Timeline& timeline, int columns);

}  // namespace stagger::sim
