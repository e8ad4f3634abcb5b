#pragma once

#include "core/table.hpp"
#include "core/timing.hpp"

#include <optional>

namespace stagger::search {

/// The makespan of a static table with the memory, nullopt if it deadlocks: what sim::play_memory
/// says, by an agenda of all that is known to come, a row of the tiles in L2 and a clock in bytes.
/// Requires `timing.memory`. O(tasks log SMs).
[[nodiscard]] std::optional<Ticks> memory_time(const Table& table, const Timing& timing);

}  // namespace stagger::search
