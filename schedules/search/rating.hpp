#pragma once

#include "core/memory.hpp"
#include "core/timing.hpp"

#include <algorithm>
#include <cstdint>

namespace stagger::search {

/// A makespan, and what a search takes it for.
struct Rating {
  Ticks makespan = 0;
  Ticks cost = 0;  ///< with a memory mean_cost(); without one, and in rounds, the makespan
};

/// What a search takes a makespan for, of a table with so many bytes of dQ tiles in flight at most:
/// longer by a fiftieth of it for as many bytes again as L2 holds, and by four fiftieths at most.
/// Additions that go to device memory take longer than the model says on one device or in one
/// launch, and not on another (gpu/results/traffic.md), so a table that needs them has to be worth
/// it.
[[nodiscard]] inline Ticks cost_of(Ticks makespan, std::int64_t dq_in_flight,
                                   const Memory& memory) {
  constexpr std::int64_t kParts = 50;
  constexpr std::int64_t kMost = 4;
  __extension__ using Ticks128 = __int128;
  const Ticks128 beyond =
      std::clamp<Ticks128>(Ticks128{dq_in_flight} - memory.l2, 0, Ticks128{kMost} * memory.l2);
  return makespan + static_cast<Ticks>(makespan * beyond / (Ticks128{kParts} * memory.l2));
}

/// Draws of chance that a table of so many tasks is rated by: none where there is no chance, and
/// the fewer the larger the table is, as chance then evens out by itself.
[[nodiscard]] inline std::int64_t rated_draws(const Memory& memory, std::int64_t tasks) {
  constexpr std::int64_t kMostDraws = 16;
  constexpr std::int64_t kPlayedTasks = 250'000;
  if (memory.spread == 0) return 0;
  return std::clamp<std::int64_t>(kPlayedTasks / std::max<std::int64_t>(tasks, 1), 1, kMostDraws);
}

/// The mean, rounded down, of what plays of a table by other draws of chance than its timing's own
/// cost, where there is chance, else `own`. A table that was found by trying thousands has the luck
/// of the draw that they were tried by: what it gains by that is not its own. `cost_by(timing)` is
/// what a play costs.
template <class CostBy>
[[nodiscard]] Ticks mean_cost(const Timing& timing, std::int64_t tasks, Ticks own, CostBy cost_by) {
  __extension__ using Ticks128 = __int128;
  const std::int64_t draws = rated_draws(*timing.memory, tasks);
  if (draws == 0) return own;
  Ticks128 sum = 0;
  Timing other = timing;
  for (std::int64_t draw = 1; draw <= draws; ++draw) {
    other.memory->draw = (timing.memory->draw + draw) % kMemoryDraws;
    sum += cost_by(other);
  }
  return static_cast<Ticks>(sum / draws);
}

}  // namespace stagger::search
