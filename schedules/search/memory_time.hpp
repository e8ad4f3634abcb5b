#pragma once

#include "core/table.hpp"
#include "core/timing.hpp"

#include <cstdint>
#include <optional>

namespace stagger::search {

/// What a table takes with a memory.
struct MemoryTime {
  Ticks makespan = 0;
  std::int64_t moved = 0;  ///< bytes from and to device memory; what is in L2 at the end is not
};

/// Plays a static table with the memory, nullopt if it deadlocks: what sim::play_memory says, by an
/// agenda of all that is known to come, a row of the tiles in L2 and a clock in bytes.
/// Requires `timing.memory`. O(tasks log SMs).
[[nodiscard]] std::optional<MemoryTime> memory_time(const Table& table, const Timing& timing);

}  // namespace stagger::search
