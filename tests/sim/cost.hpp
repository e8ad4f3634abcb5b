#pragma once

#include "core/table.hpp"
#include "core/timing.hpp"
#include "sim/memory.hpp"
#include "sim/simulate.hpp"

#include <algorithm>
#include <cstdint>

namespace stagger::sim {

/// What a search should take a table for (schedules/search/rating.hpp), by plays of the simulator:
/// with a memory up to a fiftieth more than the makespan for the dQ that L2 does not hold, and with
/// chance the mean of other draws than the timing's own. -1 if it hangs.
inline Ticks cost_by_plays(const Table& table, Timing timing) {
  const Simulation phases = simulate(table, timing);
  if (!phases.complete) return -1;
  if (!timing.memory) return phases.makespan;
  Memory& memory = *timing.memory;
  const auto cost = [&] {
    const MemoryPlay play = play_memory(table, timing);
    const std::int64_t beyond = std::clamp<std::int64_t>(play.in_flight - memory.l2, 0, memory.l2);
    return play.makespan + play.makespan * beyond / (50 * memory.l2);
  };
  if (memory.spread == 0) return cost();
  const std::int64_t own = memory.draw;
  const std::int64_t slots = std::max<std::int64_t>(std::ssize(table.slots), 1);
  const std::int64_t draws = std::max<std::int64_t>(std::min<std::int64_t>(250'000 / slots, 16), 1);
  Ticks sum = 0;
  for (std::int64_t draw = 0; draw < draws; ++draw) {
    memory.draw = own + draw + 1 < 64 ? own + draw + 1 : own + draw - 63;
    sum += cost();
  }
  return sum / draws;
}

}  // namespace stagger::sim
