#pragma once

#include "core/table.hpp"
#include "core/timing.hpp"
#include "schedules/search/evaluate.hpp"

namespace stagger::search {

/// The makespan with the memory of a static table that was played without: what sim::play_memory
/// says, by a row of the tiles in L2 and a sort by time. Requires `timing.memory`.
/// O(tasks log tasks).
[[nodiscard]] Ticks memory_time(const Table& table, const Timing& timing, const Starts& starts);

}  // namespace stagger::search
