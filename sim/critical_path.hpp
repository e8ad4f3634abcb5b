#pragma once

#include "core/timeline.hpp"
#include "sim/simulate.hpp"

namespace stagger::sim {

/// One critical path of a simulated table, walked back from the makespan: from every phase to the
/// one that it had to wait for (its own SM's before another's). A lock's latency is a `wait` step.
/// The steps cover [0, makespan] without a gap. Requires a complete simulation of a table
/// that plays_itself().
/// O(tasks), 4 bytes a task of scratch memory.
[[nodiscard]] CriticalPath critical_path(const Table& table, const Timing& timing,
                                         const Simulation& simulation);

}  // namespace stagger::sim
