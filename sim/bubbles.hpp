#pragma once

#include "sim/simulate.hpp"

namespace stagger::sim {

/// How the SM that ends last (the first of them) spends the makespan, which is the sum.
struct LastSm {
  Ticks startup = 0;  ///< waits before its first reduction
  Ticks order = 0;    ///< waits later
  Ticks busy = 0;
};

/// SM time in which nothing ran, summed over the SMs, in ticks.
struct Bubbles {
  Ticks startup = 0;  ///< before an SM's first reduction starts
  Ticks order = 0;    ///< later, between two phases: an SM waits for its turn, or takes a lane
  Ticks tail = 0;     ///< after an SM's last phase; all of the makespan for an SM without a lane
  Ticks busy = 0;     ///< time in which something ran
  LastSm last;
  [[nodiscard]] Ticks total() const { return startup + order + tail; }
};

/// Requires a complete simulation of a table that plays_itself(). total() + busy == SMs that are
/// there * makespan. An SM is busy while at least one phase runs on it, so in the overlap model
/// compute hides reduction. Throws Error{limit} if that product exceeds 2^62. O(tasks).
[[nodiscard]] Bubbles bubbles(const Table& table, const Timing& timing,
                              const Simulation& simulation);

}  // namespace stagger::sim
