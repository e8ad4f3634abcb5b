#pragma once

#include "core/table.hpp"
#include "core/timing.hpp"

#include <cstdint>
#include <optional>

namespace stagger::search {

/// The makespan of a static table, nullopt if it deadlocks: what sim::simulate says, computed lane
/// by lane as far as the locks allow instead of event by event. Requires live tasks with ranks
/// 0 … k-1 for every (head, q). O(tasks + lanes log SMs).
[[nodiscard]] std::optional<Ticks> makespan_of(const Table& table, const Timing& timing);

/// The makespan of a static table in the slot model, in slots: every task takes one slot, the slots
/// of a chain follow one another, and a rank's slot is after that of the rank before. nullopt if
/// the table's orders allow no such slots, or if 2^30 steps do not find them. The starts of chains
/// are the least solution of difference constraints (Bellman and Ford). O(tasks) if no chain has to
/// move, O(tasks * chains) at worst.
[[nodiscard]] std::optional<std::int64_t> slots_of(const Table& table);

}  // namespace stagger::search
