#pragma once

#include "core/memory.hpp"
#include "core/timing.hpp"

#include <algorithm>
#include <cstdint>

namespace stagger::search {

/// A makespan, and what a search takes it for.
struct Rating {
  Ticks makespan = 0;
  Ticks cost = 0;  ///< cost_of() of it; without a memory, and in rounds, the makespan
};

/// What a search takes a makespan for, of a table with so many bytes of dQ tiles in flight at most:
/// longer by a fiftieth of it for as many bytes again as L2 holds, and by no more than that.
/// Additions that go to device memory take longer than the model says on one device or in one
/// launch, and not on another (gpu/results/README.md), so a table that needs them has to be worth
/// it.
[[nodiscard]] inline Ticks cost_of(Ticks makespan, std::int64_t dq_in_flight,
                                   const Memory& memory) {
  constexpr std::int64_t kMostParts = 50;
  __extension__ using Ticks128 = __int128;
  const std::int64_t beyond = std::clamp<std::int64_t>(dq_in_flight - memory.l2, 0, memory.l2);
  const Ticks128 scale = Ticks128{kMostParts} * memory.l2;
  return makespan + static_cast<Ticks>(Ticks128{makespan} * beyond / scale);
}

}  // namespace stagger::search
