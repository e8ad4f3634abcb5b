#pragma once

#include "core/timeline.hpp"
#include "sim/simulate.hpp"

namespace stagger::sim {

/// The intervals of a simulation, for drawing and export; of an incomplete one, what ran and an
/// open wait up to the makespan for every slot that never got its turn. Marks the intervals that
/// `path` runs through. O(tasks log tasks), about 150 bytes a task.
[[nodiscard]] Timeline timeline(const Table& table, const Timing& timing,
                                const Simulation& simulation, const CriticalPath& path = {});

}  // namespace stagger::sim
