#pragma once

#include "core/table.hpp"
#include "core/timing.hpp"

#include <cstdint>
#include <optional>

namespace stagger::search {

/// How long a table takes with the memory, and what it asks of it.
struct MemoryTime {
  Ticks makespan = 0;
  std::int64_t in_flight = 0;  ///< most bytes of dQ tiles begun and not finished, at any time
};

/// Plays a static table with the memory, nullopt if it deadlocks: what sim::play_memory says, by an
/// agenda of all that is known to come, a row of the tiles in L2 and a clock in bytes. Requires
/// `timing.memory`. O(tasks log SMs).
[[nodiscard]] std::optional<MemoryTime> memory_time(const Table& table, const Timing& timing);

}  // namespace stagger::search
