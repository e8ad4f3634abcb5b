#pragma once

#include "core/table.hpp"
#include "core/timing.hpp"
#include "sim/memory.hpp"
#include "sim/simulate.hpp"

#include <algorithm>
#include <cstdint>

namespace stagger::sim {

/// What a play by the timing's own draw of chance costs: the makespan, with a memory up to four
/// fiftieths more for the dQ that L2 does not hold. Requires a table that runs to its end.
inline Ticks cost_of_play(const Table& table, const Timing& timing) {
  if (!timing.memory) return simulate(table, timing).makespan;
  const std::int64_t l2 = timing.memory->l2;
  const MemoryPlay play = play_memory(table, timing);
  const std::int64_t beyond = std::clamp<std::int64_t>(play.in_flight - l2, 0, 4 * l2);
  return play.makespan + play.makespan * beyond / (50 * l2);
}

/// What a search should take a table for (schedules/search/rating.hpp), by plays of the simulator:
/// what a play costs, and with chance the mean of other draws than the timing's own. -1 if it
/// hangs.
inline Ticks cost_by_plays(const Table& table, Timing timing) {
  if (!simulate(table, timing).complete) return -1;
  if (!timing.memory || timing.memory->spread == 0) return cost_of_play(table, timing);
  Memory& memory = *timing.memory;
  const std::int64_t own = memory.draw;
  const std::int64_t slots = std::max<std::int64_t>(std::ssize(table.slots), 1);
  const std::int64_t draws = std::max<std::int64_t>(std::min<std::int64_t>(250'000 / slots, 16), 1);
  Ticks sum = 0;
  for (std::int64_t draw = 0; draw < draws; ++draw) {
    memory.draw = own + draw + 1 < 64 ? own + draw + 1 : own + draw - 63;
    sum += cost_of_play(table, timing);
  }
  return sum / draws;
}

}  // namespace stagger::sim
